//! The program as people run it: the real binary, real processes, real signals.

mod bad_input;
mod bench;
mod contention;
mod cron_script;
mod deploy;
mod exits;
mod first_hour;
mod guardian;
mod hand_over;
mod holders;
mod interrupted;
mod manual;
mod rounds;
mod running;
mod schedule;
mod server_urls;
mod servers;
mod show;
mod slots;
mod terminal;
mod watching;
