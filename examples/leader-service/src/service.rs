//! What is served by HTTP, by the leader and by the others.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use lease_core::{Leases, Sighting, Standing};
use metrics_exporter_prometheus::PrometheusHandle;
use serde_json::{Value, json};

use crate::leadership::Leadership;

/// The name that one instance holds.
pub(crate) const NAME: &str = "leader-service";

/// What every request is answered from.
#[derive(Clone)]
pub(crate) struct Service {
    leases: Leases,
    leadership: Leadership,
    figures: PrometheusHandle,
}

impl Service {
    pub(crate) fn new(leases: Leases, leadership: Leadership, figures: PrometheusHandle) -> Self {
        Self { leases, leadership, figures }
    }
}

pub(crate) fn router(service: Service) -> Router {
    Router::new()
        .route("/health", get(health))
        .route("/leader", get(leader))
        .route("/metrics", get(metrics))
        .route("/tickets", post(ticket))
        .with_state(service)
}

/// For a liveness probe: this process is well whether it leads or not. It asks no database.
async fn health(State(service): State<Service>) -> Json<Value> {
    let Some(seat) = service.leadership.seat() else { return Json(json!({ "leader": false })) };
    let health = seat.tenure().health();
    Json(json!({
        "leader": health.held,
        "term": seat.tenure().term().get(),
        "lease": {
            "well": health.well,
            "renewed_ms_ago": millis(health.renewed_ago),
            "left_ms": millis(health.left),
        },
    }))
}

/// For Prometheus.
async fn metrics(State(service): State<Service>) -> String {
    service.figures.render()
}

/// Who leads, as the database says it.
async fn leader(State(service): State<Service>) -> Response {
    match who_leads(&service.leases).await {
        Ok(seen) => Json(seen).into_response(),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "error": error }))).into_response(),
    }
}

/// A ticket, from the leader alone.
async fn ticket(State(service): State<Service>) -> Response {
    if let Some(seat) = service.leadership.seat() {
        let ticket = seat.next_ticket();
        // The pause that no check sees may be right here. The number is nobody else's all the same; who must also
        // not take it behind one of a later term compares the terms.
        return Json(json!({ "term": ticket.term, "number": ticket.number })).into_response();
    }
    let leader = who_leads(&service.leases).await.unwrap_or_else(|error| json!({ "error": error }));
    let refused = json!({ "error": "another instance leads", "leader": leader });
    (StatusCode::SERVICE_UNAVAILABLE, Json(refused)).into_response()
}

async fn who_leads(leases: &Leases) -> Result<Value, String> {
    let seen = leases.status(NAME).await.map_err(|error| error.to_string())?;
    Ok(match seen.row().filter(|_| seen.standing() == Standing::Held) {
        Some(row) => json!({
            "instance": row.instance,
            "address": row.address,
            "version": row.version,
            "term": row.term.get(),
            "leads_for_ms": seen.claimed_ago().map(millis),
            "expires_in_ms": seen.expires_in().map(millis),
        }),
        None => nobody(&seen),
    })
}

/// Between two leaders.
fn nobody(seen: &Sighting) -> Value {
    json!({ "instance": null, "last_term": seen.term().map(lease_core::Term::get), "why": seen.to_string() })
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
