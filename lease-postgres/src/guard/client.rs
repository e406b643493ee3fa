//! What a guarded transaction can own.

use deadpool_postgres::Object;
use tokio_postgres::Client;

/// A connection that a guarded transaction can own: the driver's client, or what a pool lends of it. Implement it for
/// other pools' objects.
pub trait Guardable: Sized {
    /// The driver's client, always the same.
    fn client(&self) -> &Client;

    /// Closes the connection for good. Its session may be in any state, so it must not go back to a pool.
    fn close(self);
}

impl Guardable for Client {
    fn client(&self) -> &Client {
        self
    }

    fn close(self) {
        drop(self);
    }
}

impl Guardable for Object {
    fn client(&self) -> &Client {
        self
    }

    fn close(self) {
        drop(Self::take(self));
    }
}

/// A connection that is closed for good unless it is taken.
pub(super) struct Held<C: Guardable>(Option<C>);

const STILL_THERE: &str = "there until it is taken";

impl<C: Guardable> Held<C> {
    pub(super) fn new(client: C) -> Self {
        Self(Some(client))
    }

    pub(super) fn get(&self) -> &C {
        self.0.as_ref().expect(STILL_THERE)
    }

    pub(super) fn client(&self) -> &Client {
        self.get().client()
    }

    pub(super) fn take(mut self) -> C {
        self.0.take().expect(STILL_THERE)
    }
}

impl<C: Guardable> Drop for Held<C> {
    fn drop(&mut self) {
        if let Some(client) = self.0.take() {
            client.close();
        }
    }
}
