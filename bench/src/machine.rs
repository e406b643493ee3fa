//! What it was measured on.

use std::fmt;
use std::fs;

use serde::Serialize;

#[derive(Serialize)]
pub(crate) struct Machine {
    processors: usize,
    /// What they call themselves; empty where `/proc` does not tell.
    model: String,
    kernel: String,
}

impl Machine {
    pub(crate) fn read() -> Self {
        let processors = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
        let of = |file: &str| fs::read_to_string(file).unwrap_or_default();
        let model =
            of("/proc/cpuinfo").lines().find_map(|line| Some(line.strip_prefix("model name")?.to_owned()));
        Self {
            processors,
            model: model.unwrap_or_default().trim_start_matches([' ', '\t', ':']).to_owned(),
            kernel: of("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} processors {}, kernel {}", self.processors, self.model, self.kernel)
    }
}
