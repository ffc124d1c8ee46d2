//! Counts that a test asks for: it cannot see into the process otherwise.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write as _;

/// Counts, by name.
#[derive(Debug)]
pub struct Counts(Mutex<BTreeMap<&'static str, u64>>);

impl Counts {
    /// Nothing is counted yet.
    #[must_use]
    pub const fn new() -> Counts {
        Counts(Mutex::new(BTreeMap::new()))
    }

    /// Counts one more, or a name that is reported also while it is 0.
    pub fn add(&self, name: &'static str, more: u64) {
        *self.0.lock().entry(name).or_insert(0) += more;
    }

    /// The count of this name; 0 where nothing was counted.
    #[must_use]
    pub fn get(&self, name: &str) -> u64 {
        self.0.lock().get(name).copied().unwrap_or(0)
    }

    /// Appends a line for each count, `process name count`, to the file that an environment variable names.
    pub fn report(&self, variable: &str) {
        let Some(path) = std::env::var_os(variable) else {
            return;
        };
        let pid = std::process::id();
        let line = |(name, count): (&&str, &u64)| format!("{pid} {name} {count}\n");
        let lines: String = self.0.lock().iter().map(line).collect();
        let file = OpenOptions::new().create(true).append(true).open(path);
        if let Err(error) = file.and_then(|mut file| file.write_all(lines.as_bytes())) {
            // Nobody is left to tell if this fails too.
            let _ = writeln!(std::io::stderr(), "{variable}: {error}");
        }
    }
}

impl Default for Counts {
    fn default() -> Self {
        Counts::new()
    }
}
