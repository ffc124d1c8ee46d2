//! What is found here by the names that are set.

use std::path::PathBuf;

use settings::ENV_PLUGIN;

use super::library::{Library, OURS};
use super::loader::Loader;
use super::search::{Search, search};
use super::variables::Variables;
use crate::print;

/// What a name in `NCCL_OTF2_CHAIN` stands for.
#[derive(Debug)]
pub(crate) enum Behind {
    Plugin(PathBuf, &'static str),
    /// This project's plugin, which is not called by itself.
    Ours,
    /// The loader finds none here, which may be otherwise where the processes run.
    Missing(String),
    /// A file that is no profiler plugin, or that kills or refuses the process that loads it.
    Unusable(String),
}

pub(crate) fn behind(loader: &Loader, name: &str) -> Behind {
    let names = [format!("libnccl-profiler-{name}.so"), name.to_owned()];
    let names = if name.contains('/') { &names[1..] } else { &names[..] };
    let Some(file) = names.iter().find_map(|name| loader.find(name)) else {
        return Behind::Missing(format!("the loader does not find {}", names.join(", nor ")));
    };
    let profiler = Library::read(&file).and_then(|library| library.fits_here().and_then(|()| library.as_profiler()));
    match profiler {
        Ok(OURS) => Behind::Ours,
        Ok(profiler) => Behind::Plugin(file, profiler),
        Err(error) => Behind::Unusable(print::reasons(&error)),
    }
}

/// The first release that takes its variables from a plugin.
pub(crate) const FIRST_WITH_ENV_PLUGIN: u32 = 22_807;

/// The plugin from which NCCL takes its variables, as what sets it and its file: it can overrule the environment.
pub(crate) fn env_plugin(variables: &Variables, loader: &Loader) -> Option<(String, PathBuf)> {
    let setting = variables.get(ENV_PLUGIN);
    let Search::Names(names) = search("env", u32::MAX, setting.map(|setting| setting.value.as_str())) else {
        return None;
    };
    let file = names.iter().find_map(|name| loader.find(name))?;
    let is_one = Library::read(&file).is_ok_and(|library| library.is_env_plugin);
    is_one.then(|| (setting.map_or_else(|| "NCCL_ENV_PLUGIN is not set".to_owned(), ToString::to_string), file))
}
