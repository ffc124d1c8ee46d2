//! NCCL's files of variables. NCCL puts what they set into the environment in the first call that needs a variable.

use std::env;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use regular_files::{MOST_DESCRIPTION_BYTES, open_named};

use super::is_ours;

/// NCCL's variable that names the profiler plugin.
pub const PLUGIN: &str = "NCCL_PROFILER_PLUGIN";
/// Names a plugin from which NCCL takes its variables: it can overrule the environment.
pub const ENV_PLUGIN: &str = "NCCL_ENV_PLUGIN";

/// The files in the order of precedence: NCCL sets only what is not set yet.
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
pub fn are_settings_awaited() -> bool {
    let is_awaited = |name: &str| (is_ours(name) || name == PLUGIN) && env::var_os(name).is_none();
    nccl_files().iter().any(|file| nccl_file_entries(file).iter().any(|(name, _)| is_awaited(name)))
}
