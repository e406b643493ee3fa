use std::fmt;
use std::io;

/// Why there is no server, and what to do about it. For people: nothing decides by it.
#[derive(Debug, Clone)]
pub struct Error(String);

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// Says what was being done when the system refused.
    pub(crate) fn while_doing(doing: impl fmt::Display) -> impl FnOnce(io::Error) -> Self {
        move |error| Self(format!("cannot {doing}: {error}"))
    }
}

/// What a test cannot go on without: the panic is at the line of the test.
#[track_caller]
pub(crate) fn wanted<T, E: fmt::Display>(outcome: Result<T, E>) -> T {
    match outcome {
        Ok(value) => value,
        Err(error) => panic!("{error}"),
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}
