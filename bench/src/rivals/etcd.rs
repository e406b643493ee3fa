//! etcd's leases and its lock service, by gRPC over one connection.

mod messages;

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream;
use prost::Message;
use tokio::time::{sleep, timeout};
use tonic::Request;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use super::{PATIENCE, only_pairs};
use crate::Outcome;
use crate::engine::fresh_name;
use crate::party::{Job, Party};
use messages::{Done, Grant, Granted, Kept, Lock, Locked, OfLease, Unlock};

/// Much longer than a pair takes.
const TTL: Duration = Duration::from_secs(60);

/// As often as etcd's own client does it.
pub(crate) fn kept_alive_every(ttl: Duration) -> Duration {
    ttl / 3
}

#[derive(Clone)]
pub(crate) struct Client(Grpc<Channel>);

impl Client {
    /// To the etcd at this port of the loopback.
    pub(crate) async fn connect(port: u16) -> Outcome<Self> {
        let channel = Endpoint::from_shared(format!("http://127.0.0.1:{port}"))?.connect().await?;
        Ok(Self(Grpc::new(channel)))
    }

    /// Waits for the name and holds it as long as that takes, under a lease of its own that is kept alive.
    pub(crate) async fn hold<T>(
        &self,
        name: &str,
        ttl: Duration,
        work: impl Future<Output = T>,
    ) -> Outcome<T> {
        let (mut client, beside) = (self.clone(), self.clone());
        let lease = client.grant(ttl).await?;
        let life = async {
            let key = client.lock(name, lease).await?;
            let worked = work.await;
            // This alone frees the name, and so comes first.
            client.unlock(key).await?;
            client.revoke(lease).await?;
            Outcome::Ok(worked)
        };
        tokio::select! {
            held = life => held,
            Err(error) = beside.keep_alive(lease, kept_alive_every(ttl)) => Err(error),
        }
    }

    async fn grant(&mut self, ttl: Duration) -> Outcome<i64> {
        let seconds = i64::try_from(ttl.as_secs())?;
        let granted: Granted = self.ask("/etcdserverpb.Lease/LeaseGrant", Grant { ttl: seconds }).await?;
        // It counts whole seconds, and none that are too few for its elections.
        if Duration::from_secs(granted.ttl.unsigned_abs()) == ttl {
            Ok(granted.lease)
        } else {
            Err(format!("asked for a lease of {ttl:?}, etcd grants one of {} s", granted.ttl).into())
        }
    }

    /// Waits for the name; answers the key that stands for having it.
    async fn lock(&mut self, name: &str, lease: i64) -> Outcome<Vec<u8>> {
        let lock = Lock { name: name.as_bytes().to_vec(), lease };
        let locked: Locked = self.ask("/v3lockpb.Lock/Lock", lock).await?;
        Ok(locked.key)
    }

    async fn unlock(&mut self, key: Vec<u8>) -> Outcome<()> {
        let Done {} = self.ask("/v3lockpb.Lock/Unlock", Unlock { key }).await?;
        Ok(())
    }

    /// Ends the lease, and with it what is locked under it.
    async fn revoke(&mut self, lease: i64) -> Outcome<()> {
        let Done {} = self.ask("/etcdserverpb.Lease/LeaseRevoke", OfLease { lease }).await?;
        Ok(())
    }

    /// Never ends while that goes well.
    async fn keep_alive(mut self, lease: i64, every: Duration) -> Outcome<Infallible> {
        let beats = stream::unfold((), move |()| async move {
            sleep(every).await;
            Some((OfLease { lease }, ()))
        });
        self.0.ready().await?;
        let path = PathAndQuery::from_static("/etcdserverpb.Lease/LeaseKeepAlive");
        let codec = ProstCodec::<OfLease, Kept>::default();
        let mut answers = self.0.streaming(Request::new(beats), path, codec).await?.into_inner();
        while let Some(kept) = answers.message().await? {
            if kept.ttl == 0 {
                return Err("a lease has expired that was kept alive".into());
            }
        }
        Err("etcd keeps no lease alive any more".into())
    }

    async fn ask<Q, A>(&mut self, path: &'static str, question: Q) -> Outcome<A>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        self.0.ready().await?;
        let path = PathAndQuery::from_static(path);
        Ok(self.0.unary(Request::new(question), path, ProstCodec::default()).await?.into_inner())
    }
}

pub(super) struct Etcd {
    client: Client,
    name: String,
}

impl Etcd {
    pub(super) async fn connect(port: u16) -> Outcome<Self> {
        Ok(Self { client: Client::connect(port).await?, name: fresh_name("rival") })
    }

    /// A lease, the name under it, and the end of the lease, which gives the name back.
    async fn pair(&mut self) -> Outcome<()> {
        let lease = self.client.grant(TTL).await?;
        self.client.lock(&self.name, lease).await?;
        self.client.revoke(lease).await
    }
}

#[async_trait(?Send)]
impl Party for Etcd {
    async fn prepare(&mut self, job: Job) -> Outcome<()> {
        only_pairs("etcd", job)
    }

    async fn perform(&mut self, job: Job) -> Outcome<()> {
        only_pairs("etcd", job)?;
        timeout(PATIENCE, self.pair()).await?
    }
}
