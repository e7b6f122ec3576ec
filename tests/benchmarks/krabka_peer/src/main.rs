//! Compacts one partition directory with `krabka-log`, and writes down the seconds that `Log::compact` took.

use std::{
    env, fs,
    process::ExitCode,
    time::{Instant, SystemTime},
};

use krabka_log::{CleanupPolicy, CompactionContext, Log, LogConfig};
use krabka_units::prelude::bytes;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [directory, segment_bytes, written] = arguments.as_slice() else {
        eprintln!("usage: krabka-peer DIRECTORY SEGMENT_BYTES FILE");
        return ExitCode::from(2);
    };
    match compacted(directory, segment_bytes).and_then(|seconds| Ok(fs::write(written, format!("{seconds:.3}"))?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{directory}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Compacts the log, and returns the seconds of that alone: the log is opened before.
fn compacted(directory: &str, segment_bytes: &str) -> Result<f64, Box<dyn std::error::Error>> {
    let config = LogConfig {
        segment_size: bytes(segment_bytes.parse()?),
        cleanup_policy: CleanupPolicy::Compact,
        ..LogConfig::default()
    };
    let mut log = Log::open(directory, config)?;
    let context = CompactionContext {
        now: SystemTime::now(),
        last_stable_offset: log.log_end_offset(),
    };
    let begun = Instant::now();
    log.compact(&context)?;
    Ok(begun.elapsed().as_secs_f64())
}
