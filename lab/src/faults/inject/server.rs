//! What befalls a server as a whole, and clocks.

use std::time::Duration;

use tokio::time::sleep;

use crate::faults::Failure;
use crate::faults::world::World;

impl World {
    /// Kills the server or shuts it down, and starts it again.
    pub(super) async fn server_away(&self, lasts: Duration, is_killed: bool) {
        let Some(ground) = &self.ground else { return };
        ground.server(|server| if is_killed { server.kill() } else { server.stop() });
        sleep(lasts).await;
        ground.server(test_servers::Server::start_again);
    }

    pub(super) async fn server_stands_still(&self, lasts: Duration) {
        let Some(ground) = &self.ground else { return };
        ground.server(test_servers::Server::pause);
        sleep(lasts).await;
        ground.server(test_servers::Server::resume);
    }

    /// Sets the database's clock by that much, once, for good.
    pub(super) fn step_clock(&self, size: Duration, sign: i64) -> Result<(), Failure> {
        let ms = sign * i64::try_from(size.as_millis())?;
        match (&self.ground, &self.clock) {
            (Some(ground), _) => ground.server(|server| server.step_clock_ms(ms)),
            (None, Some(clock)) => {
                clock.lock().unwrap_or_else(std::sync::PoisonError::into_inner).step_ms(ms)?;
            }
            (None, None) => return Err("the clock of this history cannot be set".into()),
        }
        Ok(())
    }
}
