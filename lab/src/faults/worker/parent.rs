//! What is said between a worker and its parent: lines.

use std::fmt;
use std::io::{self, BufRead as _, Write as _};
use std::process;
use std::str::FromStr;
use std::thread;

use tokio::sync::oneshot;

/// What the parent says when the worker is to end in order.
pub(crate) const STOP: &str = "stop";

/// What a worker says of itself, that the parent may choose its moments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said {
    /// It holds a name at this moment.
    Held(String),
    /// A guarded transaction has begun, or is over.
    Guard(bool),
    /// A round has begun, or is over.
    Round(bool),
}

impl Said {
    /// Nobody who hears is nobody who minds.
    pub(crate) fn say(&self) {
        drop(writeln!(io::stdout(), "{self}"));
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = |begins: &bool| if *begins { '+' } else { '-' };
        match self {
            Self::Held(name) => write!(f, "held {name}"),
            Self::Guard(begins) => write!(f, "guard {}", sign(begins)),
            Self::Round(begins) => write!(f, "round {}", sign(begins)),
        }
    }
}

impl FromStr for Said {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        match line.split_once(' ') {
            Some(("held", name)) => Ok(Self::Held(name.to_owned())),
            Some(("guard", sign @ ("+" | "-"))) => Ok(Self::Guard(sign == "+")),
            Some(("round", sign @ ("+" | "-"))) => Ok(Self::Round(sign == "+")),
            _ => Err(format!("{line:?} is nothing that a worker says")),
        }
    }
}

/// Says its end when it is dropped, so that no abort passes over it.
pub(crate) struct While(Said);

impl While {
    pub(crate) fn guard() -> Self {
        Said::Guard(true).say();
        Self(Said::Guard(false))
    }

    pub(crate) fn round() -> Self {
        Said::Round(true).say();
        Self(Said::Round(false))
    }
}

impl Drop for While {
    fn drop(&mut self) {
        self.0.say();
    }
}

/// Listens on a thread of its own; the answer comes when the parent says to stop. The end of the standard input, which is the
/// end of the parent, ends this process at once.
pub(crate) fn listen() -> impl Future<Output = ()> {
    let (tell, told) = oneshot::channel();
    thread::spawn(move || {
        let mut tell = Some(tell);
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if line == STOP
                && let Some(tell) = tell.take()
            {
                let _ = tell.send(());
            }
        }
        process::exit(1);
    });
    async { drop(told.await) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_worker_says_is_read_back_as_it_was_said() {
        for said in
            [Said::Held("a name".to_owned()), Said::Guard(true), Said::Guard(false), Said::Round(true)]
        {
            assert_eq!(said.to_string().parse(), Ok(said));
        }
        assert!("guard *".parse::<Said>().is_err() && "".parse::<Said>().is_err());
    }
}
