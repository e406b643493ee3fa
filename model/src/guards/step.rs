//! What happens in a step.

use super::{Action, Client, Fence, GuardModel, Planted, Process, Server, Transaction, World};
use crate::events::Event;

impl GuardModel {
    pub(super) fn play(&self, world: &mut World, action: Action) {
        match action {
            Action::Claim(index) => world.processes[index].claiming = true,
            Action::ExecuteClaim(index) => self.claim(world, index),
            Action::LoseClaim(index) => {
                world.processes[index].claiming = false;
                world.processes[index].granted = 0;
            }
            Action::Granted(index) => {
                let process = &mut world.processes[index];
                process.lease = std::mem::take(&mut process.granted);
            }
            Action::Expire => world.live = false,
            Action::Lost(index) => world.processes[index].lease = 0,
            Action::Crash(index) => {
                let owner = u8::try_from(index).expect("a small index");
                let Process { there, claiming, .. } = world.processes[index];
                world.processes[index] = Process { there, claiming, ..Process::default() };
                for transaction in world.transactions.iter_mut().flatten() {
                    if transaction.owner == owner
                        && matches!(transaction.client, Client::Working | Client::Committing)
                    {
                        transaction.client = Client::Gone;
                    }
                }
            }
            Action::Begin(index) => {
                world.to_begin -= 1;
                let owner = u8::try_from(index).expect("a small index");
                let term = world.processes[index].lease;
                let begun = Transaction {
                    owner,
                    term,
                    server: Server::Nothing,
                    client: Client::Working,
                    sent: false,
                };
                let place = world.transactions.iter().position(Option::is_none).expect("there is room");
                world.transactions[place] = Some(begun);
            }
            Action::Execute(index) => self.execute(world, index),
            Action::EndSession(index) => set(world, index, |transaction| transaction.server = Server::Undone),
            Action::SendCommit(index) => set(world, index, |transaction| {
                transaction.client = Client::Committing;
                transaction.sent = true;
            }),
            // The end of its session is on its way; or it was over before.
            Action::Poison(index) => set(world, index, |transaction| transaction.client = Client::ToldUndone),
            Action::RollBack(index) => set(world, index, |transaction| {
                transaction.server = Server::Undone;
                transaction.client = Client::ToldUndone;
            }),
            Action::Answer(index) => set(world, index, |transaction| {
                let committed = transaction.server == Server::Committed;
                transaction.client = if committed { Client::ToldCommitted } else { Client::ToldUndone };
            }),
            Action::NoAnswer(index) => {
                let said =
                    if self.has(Planted::UnknownSaidFailed) { Client::ToldUndone } else { Client::Gone };
                set(world, index, |transaction| transaction.client = said);
            }
        }
        world.lied |= world.transactions.iter().flatten().any(|transaction| {
            matches!(
                (transaction.client, transaction.server),
                (Client::ToldUndone, Server::Committed) | (Client::ToldCommitted, Server::Undone)
            )
        });
    }

    /// What is locked is passed over, and answered as held.
    fn claim(&self, world: &mut World, index: usize) {
        world.processes[index].claiming = false;
        let mut servers = world.transactions.iter().flatten().map(|transaction| transaction.server);
        let locked = match self.fence {
            Fence::Postgres => {
                servers.any(Server::is_open)
                    && !self.has(Planted::PlainSelect)
                    && !self.has(Planted::ClaimKeepsTheKey)
            }
            Fence::Mysql => servers.any(|server| server == Server::Fenced) && !self.has(Planted::FenceApart),
            Fence::Sqlite => world.write_lock_taken(),
        };
        if world.live {
            return;
        }
        if locked {
            self.events.saw(Event::ClaimKeptOff);
            return;
        }
        if world.term >= self.bounds.terms {
            return;
        }
        world.term += 1;
        world.live = true;
        world.processes[index].granted = world.term;
        if world.term > 1 {
            self.events.saw(Event::HandedOver);
        }
        for transaction in world.transactions.iter().flatten().filter(|one| one.server.is_open()) {
            self.events.saw(Event::OlderTransaction);
            if usize::from(transaction.owner) == index && transaction.client == Client::Working {
                self.events.saw(Event::OwnOlderTransaction);
            }
        }
    }

    fn execute(&self, world: &mut World, index: usize) {
        let Some(transaction) = world.transactions[index] else { return };
        let held = world.live && world.term == transaction.term;
        let next = match transaction.server {
            Server::Nothing => self.begun(held),
            Server::Verified => Server::Open,
            Server::Open => Server::Written,
            Server::Written => self.commit_arrives(held),
            Server::Fenced | Server::Committed | Server::Undone => Server::Committed,
        };
        if transaction.server == Server::Nothing && next == Server::Undone {
            self.events.saw(Event::BegunInVain);
        }
        if transaction.server == Server::Written && next == Server::Undone {
            self.events.saw(Event::CommitRefused);
        }
        if next == Server::Committed {
            world.late_commit |= world.term > transaction.term;
            let ghost = transaction.client == Client::Gone;
            self.events.saw(if ghost { Event::GhostCommit } else { Event::Committed });
            // The renewal that was written inside is seen by others from now on; it may have expired again.
            world.live |= self.fence == Fence::Sqlite && world.term == transaction.term;
        }
        set(world, index, |transaction| transaction.server = next);
    }

    fn begun(&self, held: bool) -> Server {
        let open = |really: bool| if really { Server::Open } else { Server::Undone };
        match self.fence {
            Fence::Postgres | Fence::Mysql => open(held),
            Fence::Sqlite if self.has(Planted::VerifiedOutside) => {
                if held {
                    Server::Verified
                } else {
                    Server::Undone
                }
            }
            Fence::Sqlite => open(held || self.has(Planted::NotVerified)),
        }
    }

    fn commit_arrives(&self, held: bool) -> Server {
        match self.fence {
            Fence::Postgres | Fence::Sqlite => Server::Committed,
            Fence::Mysql if self.has(Planted::VerifiedAtBeginOnly) => Server::Committed,
            Fence::Mysql if held || self.has(Planted::CommitRunsOn) => Server::Fenced,
            Fence::Mysql => Server::Undone,
        }
    }
}

fn set(world: &mut World, index: usize, change: impl FnOnce(&mut Transaction)) {
    if let Some(transaction) = &mut world.transactions[index] {
        change(transaction);
    }
}
