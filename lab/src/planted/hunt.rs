//! Each fault is looked for by seeds, until one of them breaks an invariant.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::build::DIES;
use super::table::PLANTED;

/// Longer than any machine takes for what ends.
const PATIENCE: Duration = Duration::from_secs(900);
/// How many hours each seed simulates.
const HOURS: &str = "2";

/// Answers whether the copy is sound without and caught with each fault.
pub(super) fn all(program: &Path, only: &[usize], seeds: u64) -> Result<bool, String> {
    let numbers: Vec<usize> = (0..=PLANTED.len())
        .filter(|number| only.is_empty() || *number == 0 || only.contains(number))
        .collect();
    let (next, missed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let outcomes: Vec<Result<(), String>> = std::thread::scope(|scope| {
        let hunters: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    while let Some(&number) = numbers.get(next.fetch_add(1, Ordering::Relaxed)) {
                        // Without a fault as much is simulated as is needed to catch most.
                        let seeds = if number == 0 { seeds.min(40) } else { seeds };
                        let caught = hunt(program, number, seeds)?;
                        if caught != (number > 0) {
                            missed.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(number);
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        hunters
            .into_iter()
            .map(|hunter| hunter.join().unwrap_or_else(|_| Err("a hunt panicked".to_owned())))
            .collect()
    });
    outcomes.into_iter().collect::<Result<Vec<()>, String>>()?;
    let missed = missed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    println!("{} planted, {} not as they should be: {missed:?}", numbers.len() - 1, missed.len());
    Ok(missed.is_empty())
}

/// Looks for one, and says what has caught it.
fn hunt(program: &Path, number: usize, seeds: u64) -> Result<bool, String> {
    let since = Instant::now();
    let child = Command::new(program)
        .args([&seeds.to_string(), HOURS])
        .env("PLANTED", number.to_string())
        // It ends with us: hunted.rs.
        .env(DIES, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = child.map_err(|error| format!("cannot run {}: {error}", program.display()))?;
    let ended = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if since.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(20)),
            Ok(None) | Err(_) => break None,
        }
    };
    let Some(status) = ended else {
        drop(child.kill());
        drop(child.wait());
        return Err(format!("with {number} planted it does not end in {PATIENCE:?}"));
    };
    let output = child.wait_with_output().map_err(|error| format!("cannot read its answer: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let caught = if status.success() {
        (!said.is_empty()).then_some(said)
    } else {
        Some(format!("it fails: {status}"))
    };
    let breaks = number.checked_sub(1).map_or("nothing", |index| PLANTED[index].breaks);
    let by = caught.as_deref().unwrap_or("NOTHING BREAKS");
    println!("{number:>3}  {breaks}\n       {by} ({:.1} s)", since.elapsed().as_secs_f64());
    Ok(caught.is_some())
}
