use std::time::Duration;

use nix::sys::signal::Signal;

use crate::data::create_for_postgres;
use crate::error::wanted;
use crate::process::{Life, command, other_user, run};
use crate::{Error, Product, Server, Setup};

/// A hot standby of a PostgreSQL server: it follows, and takes sessions that only read.
pub struct Standby {
    server: Server,
}

impl Standby {
    /// Copies the server and follows it.
    ///
    /// # Panics
    ///
    /// If it is no running PostgreSQL, or the standby does not start; the message says why.
    #[track_caller]
    pub fn of(primary: &Server) -> Self {
        assert_eq!(primary.product(), Product::Postgres, "a standby is PostgreSQL's");
        wanted(Self::try_of(primary))
    }

    fn try_of(primary: &Server) -> Result<Self, Error> {
        let server = Server::with_data(primary.binaries().clone(), Setup::default(), |binaries, data| {
            create_for_postgres(data)?;
            let program = binaries.beside("pg_basebackup");
            let user = other_user()?;
            let mut copy = command(program.as_os_str(), data, user.as_ref(), Life::Ours(Signal::SIGKILL));
            copy.arg("-D").arg(data).args(["-h", "127.0.0.1", "-p", &primary.port().to_string()]);
            copy.args(["-U", "postgres", "--write-recovery-conf", "--checkpoint=fast", "--no-sync"]);
            run(copy).map(drop)
        })?;
        Ok(Self { server })
    }

    /// The server that it is.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The same, to stop, pause and start it again.
    pub fn server_mut(&mut self) -> &mut Server {
        &mut self.server
    }

    /// Makes it a primary, and waits until it is one.
    #[track_caller]
    pub fn promote(&mut self) {
        let patience = Duration::from_secs(120).as_secs();
        let promoted = self.server.ask(&format!("SELECT pg_promote(true, {patience})"));
        assert_eq!(promoted.as_deref(), Some("t"), "the standby was not promoted within {patience} s");
    }
}
