//! The kinds of faults, and which engine each can befall.

use clap::ValueEnum;

use super::backend::Backend;

/// A kind of fault. What the lab calls each, on the command line and in histories, is the name in lower case with hyphens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub enum Kind {
    /// A worker is killed, and another started in its place.
    ClientKill,
    /// A worker is stopped where it is, and goes on later.
    ClientStop,
    /// The server is killed and started again.
    ServerKill,
    /// All processes of the server are stopped where they are, and go on later.
    ServerStop,
    /// The server is shut down as an operator would and started again.
    ServerRestart,
    /// Nothing that workers send reaches the server.
    LostRequests,
    /// Nothing that the server answers reaches workers.
    LostAnswers,
    /// Nothing passes either way.
    Partition,
    /// The server has ended its side of all connections, and workers do not learn it; new connections work.
    HalfOpen,
    /// All that passes is late.
    Latency,
    /// A connection ends before or after one message of the protocol.
    Cut,
    /// The database's clock is set back.
    ClockBack,
    /// The database's clock is set forward, by more than the margin: a published limit, beyond which guards alone promise.
    ClockForward,
    /// Somebody else's transaction has the lease's row.
    Blocker,
    /// The server ends the sessions that are idle.
    IdleKill,
    /// The database takes no writes.
    ReadOnly,
    /// The file at the path becomes another one of the same content, or is away for a while.
    Replace,
    /// The disk is full.
    FullDisk,
}

/// What a fault has to have at hand. Kinds of the same setting can share a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Setting {
    /// Workers, on any database.
    Workers,
    /// A proxy before each worker.
    Network,
    /// A server that dies and comes back.
    Life,
    /// A server, or workers, whose clock can be set.
    Clock,
    /// A database whose settings are changed, or a file.
    Database,
}

impl Kind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClientKill => "client-kill",
            Self::ClientStop => "client-stop",
            Self::ServerKill => "server-kill",
            Self::ServerStop => "server-stop",
            Self::ServerRestart => "server-restart",
            Self::LostRequests => "lost-requests",
            Self::LostAnswers => "lost-answers",
            Self::Partition => "partition",
            Self::HalfOpen => "half-open",
            Self::Latency => "latency",
            Self::Cut => "cut",
            Self::ClockBack => "clock-back",
            Self::ClockForward => "clock-forward",
            Self::Blocker => "blocker",
            Self::IdleKill => "idle-kill",
            Self::ReadOnly => "read-only",
            Self::Replace => "replace",
            Self::FullDisk => "full-disk",
        }
    }

    /// What it has to have at hand.
    pub fn setting(self) -> Setting {
        match self {
            Self::ClientKill | Self::ClientStop => Setting::Workers,
            Self::LostRequests
            | Self::LostAnswers
            | Self::Partition
            | Self::HalfOpen
            | Self::Latency
            | Self::Cut => Setting::Network,
            Self::ServerKill | Self::ServerStop | Self::ServerRestart => Setting::Life,
            Self::ClockBack | Self::ClockForward => Setting::Clock,
            Self::Blocker | Self::IdleKill | Self::ReadOnly | Self::Replace | Self::FullDisk => {
                Setting::Database
            }
        }
    }

    /// Whether it can befall that engine.
    pub fn befalls(self, backend: Backend) -> bool {
        let file = matches!(self, Self::Replace | Self::FullDisk);
        let both = matches!(
            self,
            Self::ClientKill
                | Self::ClientStop
                | Self::ClockBack
                | Self::ClockForward
                | Self::Blocker
                | Self::ReadOnly
        );
        both || file == (backend == Backend::Sqlite)
    }

    /// All that can befall an engine, in the order of their declaration.
    pub fn of(backend: Backend) -> Vec<Self> {
        Self::value_variants().iter().copied().filter(|kind| kind.befalls(backend)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_kind_is_what_the_command_line_takes() {
        for kind in Kind::value_variants() {
            assert_eq!(Kind::from_str(kind.name(), false), Ok(*kind));
        }
    }

    #[test]
    fn a_file_has_no_server_and_a_server_is_no_file() {
        let servers = [Backend::Postgres, Backend::Mariadb, Backend::Mysql];
        for kind in Kind::value_variants() {
            assert!(kind.befalls(Backend::Sqlite) || kind.befalls(Backend::Postgres), "{kind:?}");
            for server in servers {
                assert_eq!(kind.befalls(server), kind.befalls(Backend::Postgres), "{kind:?}");
            }
        }
        assert!(!Kind::ServerKill.befalls(Backend::Sqlite) && !Kind::Cut.befalls(Backend::Sqlite));
        assert!(!Kind::FullDisk.befalls(Backend::Mysql) && !Kind::Replace.befalls(Backend::Postgres));
    }
}
