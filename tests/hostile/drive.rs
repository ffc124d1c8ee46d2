//! Runs scripts of callbacks with the plugin.

use whole_plugin::archive::Archive;
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

/// Runs a script through the table of one version; it must find the plugin well-behaved. The archive is there at the
/// end, made by the plugin or, where it could not know that the job was over, by the tool.
pub(crate) fn archive_of(scratch: &Scratch, table: u32, script: &str) -> Archive {
    archive_under(None, scratch, table, script)
}

/// The same beside a libnccl that says it is this release.
pub(crate) fn archive_under(nccl: Option<u32>, scratch: &Scratch, table: u32, script: &str) -> Archive {
    let mut command = scratch.script(script);
    if let Some(release) = nccl {
        command.args(["--nccl", &release.to_string()]);
    }
    command.args(["--table", &table.to_string()]);
    // Up to v3 nobody knows how many ranks there are, and NCCL lends no logger to say so.
    let said: &[&str] = if table < 4 { &["the process that finishes last"] } else { &[] };
    let _ended = run(&mut command).undisturbed(said);
    let _finalized = scratch.finalize().with_code(0);
    scratch.sound_archive()
}
