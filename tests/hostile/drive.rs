//! One script, three ways: with our plugin, with the naive one, and with the naive one and its fault.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::Path;
use std::process::Command;

use whole_plugin::archive::Archive;
use whole_plugin::built;
use whole_plugin::process::{Ended, run};
use whole_plugin::scratch::Scratch;

/// Runs a script through the table of one version; it must find the plugin well-behaved. The archive is there at the
/// end, made by the plugin or, where it could not know that the job was over, by the tool.
pub(crate) fn archive_of(scratch: &Scratch, table: u32, script: &str) -> Archive {
    archive_under(None, scratch, table, script)
}

/// The same beside a libnccl that says it is this release.
pub(crate) fn archive_under(
    nccl: Option<u32>,
    scratch: &Scratch,
    table: u32,
    script: &str,
) -> Archive {
    let mut command = command(scratch, &built::plugin(), nccl, table, script);
    // Up to v3 nobody knows how many ranks there are, and NCCL lends no logger to say so.
    let said: &[&str] = if table < 4 {
        &["the process that finishes last"]
    } else {
        &[]
    };
    let _ended = run(&mut command).undisturbed(said);
    let _finalized = scratch.finalize().with_code(0);
    let archive = scratch.archive();
    archive.validate();
    let report = archive.check();
    assert_eq!(report["faults"], 0, "{report}");
    archive
}

fn command(
    scratch: &Scratch,
    plugin: &Path,
    nccl: Option<u32>,
    table: u32,
    script: &str,
) -> Command {
    let mut command = scratch.script_with(plugin, script);
    if let Some(release) = nccl {
        command.args(["--nccl", &release.to_string()]);
    }
    command.args(["--table", &table.to_string()]);
    command
}

/// A script, and the naive plugin's fault that it finds.
pub(crate) struct Pitfall<'a> {
    /// What `NAIVE` is set to.
    pub(crate) fault: &'a str,
    /// The interface's version.
    pub(crate) table: u32,
    /// The release that NCCL says it is.
    pub(crate) nccl: Option<u32>,
    /// The callbacks.
    pub(crate) script: &'a str,
}

/// Our archive, and where it lies.
pub(crate) struct Ours {
    _scratch: Scratch,
    archive: Archive,
}

impl Deref for Ours {
    type Target = Archive;

    fn deref(&self) -> &Archive {
        &self.archive
    }
}

/// How the naive plugin fared.
pub(crate) struct Naive(Ended);

impl<'a> Pitfall<'a> {
    pub(crate) fn new(fault: &'a str, table: u32, script: &'a str) -> Self {
        Self {
            fault,
            table,
            nccl: None,
            script,
        }
    }

    /// Ours survives, and its archive has no faults.
    pub(crate) fn ours(&self) -> Ours {
        let scratch = Scratch::new();
        let archive = archive_under(self.nccl, &scratch, self.table, self.script);
        Ours {
            _scratch: scratch,
            archive,
        }
    }

    /// The naive plugin without a fault, which must be well-behaved: what fails below is the fault's doing.
    pub(crate) fn control(&self) -> Naive {
        let ended = self.naive("");
        let well = ended.0.stdout.ends_with(" calls, 0 problems\n");
        assert!(well, "{}", ended.0);
        Naive(ended.0.with_code(0))
    }

    /// The naive plugin with its fault.
    pub(crate) fn naive_with_fault(&self) -> Naive {
        self.naive(self.fault)
    }

    fn naive(&self, fault: &str) -> Naive {
        let scratch = Scratch::new();
        let mut command = command(
            &scratch,
            &built::naive_plugin(),
            self.nccl,
            self.table,
            self.script,
        );
        Naive(run(command.env("NAIVE", fault)))
    }
}

impl Naive {
    /// The job is killed, by the plugin's fault.
    pub(crate) fn dies_by(self, signal: i32) {
        let _ended = self.0.by_signal(signal);
    }

    /// The job lives, and this is said of the plugin.
    pub(crate) fn has_to_answer_for(self, words: &str) {
        let ended = self.0.with_code(1).to_string();
        assert!(ended.contains(words), "not blamed for {words:?}\n{ended}");
    }

    /// What it said last under this name; nothing if it never did.
    pub(crate) fn said(&self, name: &str) -> Option<String> {
        let lines = self.0.stderr.lines();
        let said: BTreeMap<&str, &str> = lines
            .filter_map(|line| line.strip_prefix("naive: ")?.split_once(" = "))
            .collect();
        said.get(name).map(|&value| value.to_owned())
    }

    /// What it counted; 0 where it says nothing.
    pub(crate) fn count(&self, name: &str) -> u64 {
        let said = self.said(name);
        said.map_or(0, |count| count.parse().expect("a number"))
    }
}
