//! The checkers on histories that were made up: a lawful one passes, and the same with one planted defect breaks exactly the rules
//! that are there to find it.

mod plants;
mod random;
mod rounds;
mod story;
mod time;
