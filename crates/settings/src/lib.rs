//! Reads the settings from the environment variables.
//!
//! One table ([`VARIABLES`]) has every variable with its meaning and how its value is read. `docs/REFERENCE.md` is
//! generated from the table (`tests/archive/pages.rs`), and `nccl-otf2 run --help` prints it.
//!
//! Reading never fails: a bad value keeps the default and adds a line to [`Config::remarks`]. An unknown variable with
//! the project's prefix also adds a line, which names the nearest existing variable.

mod advice;
mod calendar;
mod config;
mod events;
pub mod gpu;
mod nccl_files;
mod shell;
pub mod steps;
mod template;
#[cfg(test)]
mod tests;
mod values;
mod variables;

pub use advice::kernel_channels;
pub use calendar::date_and_time;
pub use config::{Config, Finalize, MOST_CHAINED, NvtxChoice, ScorepMode, TopologyChoice, Verbosity};
pub use events::{FULL, LIGHT, STANDARD, event_kinds, event_mask, event_names, event_set};
pub use nccl_files::{ENV_PLUGIN, PLUGIN, are_settings_awaited, nccl_file_entries, nccl_files};
pub use shell::shell_word;
pub use template::{PathValues, expand};
use values::{nearest, number};
pub use variables::{VARIABLES, Variable};

/// The version of the plugin and the tool, with the commit if they were built from a checkout.
pub const VERSION: &str = env!("NCCL_PROFILER_OTF2_VERSION");

/// NCCL's own variable for an event mask, used if `NCCL_OTF2_EVENTS` is not set.
const NCCL_EVENT_MASK: &str = "NCCL_PROFILE_EVENT_MASK";

impl Config {
    pub fn from_environment() -> Self {
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())));
        Self::from_variables(variables)
    }

    pub fn from_variables(variables: impl Iterator<Item = (String, String)>) -> Self {
        let mut config = Self::default();
        let mut nccl_mask = None;
        let mut has_events = false;
        let mut ours: Vec<(String, String)> =
            variables.filter(|(name, _)| is_ours(name) || name == NCCL_EVENT_MASK).collect();
        small_sort::sort(&mut ours);
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
            config
                .remarks
                .push("NCCL_OTF2_TOGGLE_SIGNAL: that is the signal of NCCL_OTF2_DUMP_SIGNAL; none is used".to_owned());
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
                let nearest = nearest(name, known);
                Err(format!("no such variable; the nearest is {nearest}"))
            }
        }
    }
}

/// Whether the plugin reads a variable. `NCCL_OTF2_TEST_*` is reserved for the project's own tests.
fn is_ours(name: &str) -> bool {
    name.starts_with("NCCL_OTF2_") && !name.starts_with("NCCL_OTF2_TEST_")
}
