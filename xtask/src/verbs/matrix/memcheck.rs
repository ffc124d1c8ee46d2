//! Runs `nccl-host` under Valgrind's memcheck, and extracts its findings in this plugin.
//!
//! libnccl and the double have errors and leaks of their own (reads of uninitialised memory, in some releases). Those
//! are only counted; a finding is a failure only if the plugin is on its stack.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::cache;
use crate::cargo;

/// Elements of an operation: everything takes about thirty times as long.
pub(super) const COUNT: &str = "1000";
/// After this `nccl-host` kills its processes; a run takes 10 to 20 s on an idle machine.
pub(super) const LIMIT_SECONDS: &str = "600";
const PLUGIN: &str = "libnccl_profiler_otf2.so</obj>";

pub(super) struct MemcheckFindings {
    /// Findings with the plugin on a stack, each as its first line.
    pub(super) ours: Vec<String>,
    pub(super) others: usize,
}

/// Puts valgrind in front of the program; its findings go into files in this folder.
pub(super) fn in_front(command: &mut Command, folder: &Path) {
    command
        .args([
            "valgrind",
            "--quiet",
            "--trace-children=yes",
            // The double patches functions of libnccl.
            "--smc-check=all-non-file",
            "--num-callers=40",
            "--leak-check=full",
            "--xml=yes",
        ])
        .arg(format!("--suppressions={}", cargo::root().join("tests/support/valgrind.supp").display()))
        .arg(format!("--xml-file={}", folder.join("memcheck.%p").display()));
}

pub(super) fn found(folder: &Path) -> Result<MemcheckFindings> {
    let mut found = MemcheckFindings { ours: Vec::new(), others: 0 };
    let mut workers = 0;
    let is_finding = |path: &PathBuf| path.file_stem().is_some_and(|stem| stem == "memcheck");
    for path in cache::list(folder)?.into_iter().filter(is_finding) {
        let text = std::fs::read(&path).with_context(|| format!("read {}", path.display()))?;
        let text = String::from_utf8_lossy(&text);
        // The report of a worker that ended contains its arguments; the launcher never loads NCCL.
        workers += usize::from(text.contains("--worker") && text.contains("<state>FINISHED</state>"));
        sort(&text, &mut found);
    }
    ensure!(workers > 0, "memcheck saw no worker come to its end");
    Ok(found)
}

/// If a process executes another program (exec), one file contains both reports.
fn sort(text: &str, found: &mut MemcheckFindings) {
    for error in text.split("<error>").skip(1) {
        let error = error.split("</error>").next().unwrap_or_default();
        if error.contains(PLUGIN) {
            found.ours.push(first_line(error));
        } else {
            found.others += 1;
        }
    }
}

/// The kind of error, and the first function of the plugin on the stack.
fn first_line(error: &str) -> String {
    let what = tag(error, "what").or_else(|| tag(error, "text"));
    let place = error.split("<frame>").find(|frame| frame.contains(PLUGIN)).and_then(|frame| tag(frame, "fn"));
    format!(
        "{}: {} in {}",
        tag(error, "kind").unwrap_or_default(),
        what.unwrap_or_default(),
        place.unwrap_or("a function without a name")
    )
}

fn tag<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    Some(rest.split_once('<')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "<error><kind>InvalidRead</kind><what>Invalid read of size 8</what><stack>\
        <frame><obj>/x/libnccl.so.2</obj><fn>init</fn></frame></stack></error>\
        <error><kind>Leak_DefinitelyLost</kind><xwhat><text>8 bytes are lost</text></xwhat><stack>\
        <frame><obj>/usr/libexec/malloc.so</obj><fn>malloc</fn></frame>\
        <frame><obj>/x/libnccl_profiler_otf2.so</obj><fn>start</fn></frame></stack></error>";

    #[test]
    fn only_what_has_the_plugin_on_its_stack_is_ours() {
        let mut found = MemcheckFindings { ours: Vec::new(), others: 0 };
        sort(REPORT, &mut found);
        assert_eq!(found.ours, ["Leak_DefinitelyLost: 8 bytes are lost in start"]);
        assert_eq!(found.others, 1);
    }
}
