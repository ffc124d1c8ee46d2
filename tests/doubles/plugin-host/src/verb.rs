//! What the verbs share: which plugin they call, and how they end.

use std::path::{Path, PathBuf};

use crate::interface::Version;
use crate::plugin::Plugin;

/// Which plugin, and which of its tables.
#[derive(clap::Args, Clone)]
pub(crate) struct PluginArguments {
    /// The plugin's library.
    #[arg(long, value_name = "PLUGIN.so")]
    pub(crate) plugin: PathBuf,

    /// Call this table instead of the highest that there is.
    #[arg(long, value_name = "1-7", value_parser = Version::parse)]
    pub(crate) table: Option<Version>,
}

impl PluginArguments {
    pub(crate) fn load(&self) -> anyhow::Result<Plugin> {
        load(&self.plugin, self.table)
    }
}

pub(crate) fn load(path: &Path, table: Option<Version>) -> anyhow::Result<Plugin> {
    // A name without a slash would be searched for in the system's folders.
    let path = std::path::absolute(path)?;
    // SAFETY: the user named this file as the profiler plugin to run.
    unsafe { Plugin::load(&path, table) }
}

/// Whether the plugin did all it should.
pub(crate) enum Outcome {
    Well,
    Wrong,
}
