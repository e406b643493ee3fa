//! What may happen next.

use super::{Client, Fence, GuardModel, Planted, Server, Transaction, World};

/// One thing that happens. Processes and transactions go by their places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// A process sends a claim.
    Claim(usize),
    /// The database executes it, also when its client has given up or died.
    ExecuteClaim(usize),
    /// It is lost, on its way there or back.
    LoseClaim(usize),
    /// Its grant arrives.
    Granted(usize),
    /// The lease expires, or is released or cleared.
    Expire,
    /// A process learns that its lease is lost.
    Lost(usize),
    /// A process dies: its transactions have no client any more.
    Crash(usize),
    /// A process begins a transaction.
    Begin(usize),
    /// The database executes the next statement of a transaction.
    Execute(usize),
    /// The database ends the session of a transaction, for whatever reason.
    EndSession(usize),
    /// The program sends the commit.
    SendCommit(usize),
    /// The watcher finds the lease lost and has the session ended.
    Poison(usize),
    /// The program rolls back.
    RollBack(usize),
    /// The commit is answered.
    Answer(usize),
    /// No answer to the commit comes.
    NoAnswer(usize),
}

impl GuardModel {
    pub(super) fn possible(&self, world: &World, actions: &mut Vec<Action>) {
        for (index, process) in world.processes.iter().enumerate().filter(|(_, process)| process.there) {
            if process.claiming {
                actions.push(Action::ExecuteClaim(index));
                actions.push(Action::LoseClaim(index));
            } else if process.granted > 0 {
                actions.push(Action::Granted(index));
                actions.push(Action::LoseClaim(index));
            } else if world.term < self.bounds.terms {
                // Also while it still believes: another part of the program may.
                actions.push(Action::Claim(index));
            }
            let owner = u8::try_from(index).expect("a small index");
            if process.lease > 0 {
                actions.push(Action::Lost(index));
                let open = world.transactions.iter().flatten().count();
                if world.to_begin > 0 && open < self.bounds.transactions {
                    actions.push(Action::Begin(index));
                }
            }
            let has_clients = world.transactions.iter().flatten().any(|transaction| {
                transaction.owner == owner
                    && matches!(transaction.client, Client::Working | Client::Committing)
            });
            if process.lease > 0 || process.claiming || has_clients {
                actions.push(Action::Crash(index));
            }
        }
        if world.live {
            actions.push(Action::Expire);
        }
        for (index, transaction) in world.transactions.iter().enumerate() {
            if let Some(transaction) = transaction {
                self.of_transaction(world, index, *transaction, actions);
            }
        }
    }

    fn of_transaction(
        &self,
        world: &World,
        index: usize,
        transaction: Transaction,
        actions: &mut Vec<Action>,
    ) {
        let Transaction { server, client, sent, .. } = transaction;
        let is_over = matches!(server, Server::Committed | Server::Undone);
        // SQLite waits for the one lock; a session behind an abandoned client runs on with what it was sent.
        let waits = self.fence == Fence::Sqlite
            && matches!(server, Server::Nothing | Server::Verified)
            && world.write_lock_taken();
        let was_sent = match server {
            Server::Nothing | Server::Verified | Server::Open | Server::Fenced => true,
            Server::Written => sent,
            Server::Committed | Server::Undone => false,
        };
        if was_sent && !waits {
            actions.push(Action::Execute(index));
        }
        if !is_over {
            actions.push(Action::EndSession(index));
        }
        match client {
            Client::Working => {
                if server == Server::Written {
                    actions.push(Action::SendCommit(index));
                }
                actions.push(Action::Poison(index));
                actions.push(if is_over { Action::Answer(index) } else { Action::RollBack(index) });
            }
            Client::Committing => {
                if is_over {
                    actions.push(Action::Answer(index));
                }
                actions.push(Action::NoAnswer(index));
                if self.has(Planted::KilledWhileCommitting) {
                    actions.push(Action::Poison(index));
                }
            }
            Client::ToldCommitted | Client::ToldUndone | Client::Gone => {}
        }
    }
}

impl World {
    /// SQLite: some transaction has the lock of the file.
    pub(super) fn write_lock_taken(&self) -> bool {
        self.transactions.iter().flatten().any(|transaction| transaction.server.is_open())
    }
}

impl Server {
    /// Begun, and not ended.
    pub(super) fn is_open(self) -> bool {
        matches!(self, Self::Open | Self::Written | Self::Fenced)
    }
}
