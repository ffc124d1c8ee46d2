//! Reads the settings from the environment variables. One table ([`VARIABLES`]) has every variable with its meaning and
//! how its value is read. `docs/REFERENCE.md` is generated from the table (`tests/archive/pages.rs`), and
//! `nccl-otf2 run --help` prints it.
//!
//! Reading never fails: a bad value keeps the default and adds a line to [`Config::remarks`]. An unknown variable with
//! the project's prefix also adds a line, which names the nearest existing variable.

#![forbid(unsafe_code)]

use std::env;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::config::{nearest, number};
use regular_files::{MOST_DESCRIPTION_BYTES, open_named};

pub mod config;
mod variables;

pub use crate::config::{
    Config, Finalize, MOST_CHAINED, NvtxChoice, ScorepMode, TopologyChoice, Verbosity, event_kinds, event_mask,
    event_set, kernel_channels,
};
pub use crate::variables::{PathValues, VARIABLES, Variable, expand, shell_word};
pub use journal::snapshots::date_and_time;
pub use nccl_events::{FULL, LIGHT, STANDARD, event_names};

/// The version of the plugin and the tool, with the commit if they were built from a checkout.
pub const VERSION: &str = env!("NCCL_PROFILER_OTF2_VERSION");

/// NCCL's own variable for an event mask, used if `NCCL_OTF2_EVENTS` is not set.
const NCCL_EVENT_MASK: &str = "NCCL_PROFILE_EVENT_MASK";

impl Config {
    pub fn from_environment() -> Self {
        let variables = env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())));
        Self::from_variables(variables)
    }

    pub fn from_variables(variables: impl Iterator<Item = (String, String)>) -> Self {
        let mut config = Self::default();
        let mut nccl_mask = None;
        let mut has_events = false;
        let mut ours: Vec<(String, String)> =
            variables.filter(|(name, _)| is_ours(name) || name == NCCL_EVENT_MASK).collect();
        nccl_events::sort::sort(&mut ours);
        for (name, value) in ours {
            if name == NCCL_EVENT_MASK {
                nccl_mask = Some(value);
                continue;
            }
            has_events |= name == "NCCL_OTF2_EVENTS";
            if let Err(reason) = config.set(&name, value.trim()) {
                config.remarks.push(format!("{name}={value}: {reason}"));
            }
        }
        if config.toggle_signal.is_some() && config.toggle_signal == config.dump_signal {
            config.toggle_signal = None;
            config.remarks.push(
                "NCCL_OTF2_TOGGLE_SIGNAL: the same signal as NCCL_OTF2_DUMP_SIGNAL; no signal is \
                    used"
                    .to_owned(),
            );
        }
        if let (Some(value), false) = (nccl_mask, has_events) {
            match number(&value).and_then(|mask| u32::try_from(mask).ok()) {
                Some(mask) => config.mask = mask & FULL,
                None => config.remarks.push(format!("{NCCL_EVENT_MASK}={value}: not a number; `standard` is used")),
            }
        }
        config
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match VARIABLES.iter().find(|variable| variable.name == name) {
            Some(variable) => (variable.set)(self, value),
            None => {
                let known = VARIABLES.iter().map(|variable| variable.name);
                Err(match nearest(name, known) {
                    Some(near) if strsim::levenshtein(name, near) <= MOST_TYPOS => {
                        format!("no such variable; did you mean {near}?")
                    }
                    _ => "no such variable (docs/REFERENCE.md lists all)".to_owned(),
                })
            }
        }
    }
}

/// How many letters of a name may differ from the variable that is proposed instead.
const MOST_TYPOS: usize = 3;

/// Whether the plugin reads a variable. `NCCL_OTF2_TEST_*` is reserved for the project's own tests.
fn is_ours(name: &str) -> bool {
    name.starts_with("NCCL_OTF2_") && !name.starts_with("NCCL_OTF2_TEST_")
}

// NCCL puts what its files of variables set into the environment, in the first call that needs a variable.

/// NCCL's variable that names the profiler plugin.
pub const PLUGIN: &str = "NCCL_PROFILER_PLUGIN";
/// Names a plugin from which NCCL takes its variables: it can overrule the environment.
pub const ENV_PLUGIN: &str = "NCCL_ENV_PLUGIN";

/// NCCL's files of variables in the order of precedence: NCCL sets only what is not set yet.
pub fn nccl_files() -> Vec<PathBuf> {
    let user = match env::var_os("NCCL_CONF_FILE").filter(|file| !file.is_empty()) {
        Some(file) => Some(file.into()),
        None => env::home_dir().map(|home| home.join(".nccl.conf")),
    };
    user.into_iter().chain(["/etc/nccl.conf".into()]).collect()
}

/// The lines `NAME=VALUE` of a file, without any quoting (NCCL's `setEnvFile`).
pub fn nccl_file_entries(path: &Path) -> Vec<(String, String)> {
    let mut text = Vec::new();
    let read = open_named(path, MOST_DESCRIPTION_BYTES).and_then(|mut file| file.read_to_end(&mut text));
    if read.is_err() {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once('=')).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Whether NCCL will add something to this process's environment that the plugin reads.
pub fn has_pending_nccl_settings() -> bool {
    let is_awaited = |name: &str| (is_ours(name) || name == PLUGIN) && env::var_os(name).is_none();
    nccl_files().iter().any(|file| nccl_file_entries(file).iter().any(|(name, _)| is_awaited(name)))
}

#[cfg(test)]
mod tests;
