//! A scripted process with the stand-in preloaded.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use fake_scorep::{Log, Variant};
use whole_plugin::archive::Archive;
use whole_plugin::built;
use whole_plugin::process::{FinishedProcess, run};
use whole_plugin::scratch::Scratch;

pub(crate) struct Job {
    pub(crate) scratch: Scratch,
    pub(crate) command: Command,
}

pub(crate) const ROW: &str = "NCCL operations, until reported";

impl Job {
    /// `plugin-host` runs a script in a process with this Score-P.
    pub(crate) fn script(variant: Variant, text: &str) -> Self {
        let scratch = Scratch::new();
        let command = scratch.script(text);
        Self::with(variant, scratch, command)
    }

    pub(crate) fn with(variant: Variant, scratch: Scratch, mut command: Command) -> Self {
        let libraries = scratch.path().join("scorep");
        std::fs::create_dir(&libraries).expect("a directory");
        command
            .env("LD_PRELOAD", variant.build(&libraries))
            .env("FAKE_SCOREP_LOG", scratch.path().join("scorep-log"))
            .env("NCCL_OTF2_VERBOSITY", "verbose");
        Self { scratch, command }
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// Runs it; it must succeed.
    pub(crate) fn run(mut self) -> Outcome {
        let ended = run(&mut self.command).with_code(0);
        assert!(!ended.stderr.contains("Fatal"), "{ended}");
        let logs = Log::all(&self.scratch.path().join("scorep-log"));
        Outcome { scratch: self.scratch, ended, logs }
    }
}

pub(crate) struct Outcome {
    pub(crate) scratch: Scratch,
    pub(crate) ended: FinishedProcess,
    pub(crate) logs: Vec<Log>,
}

impl Outcome {
    /// The only log.
    pub(crate) fn log(&self) -> &Log {
        assert_eq!(self.logs.len(), 1);
        let log = &self.logs[0];
        assert!(log.has_ended, "{}", self.ended);
        assert_eq!(log.left_open, 0, "{}", self.ended);
        log
    }

    /// The counts in the plugin's archive.
    pub(crate) fn counts(&self) -> BTreeMap<String, u64> {
        counts(&self.scratch.archive())
    }

    /// The plugin's archive is complete, whatever was forwarded.
    pub(crate) fn assert_whole(&self) {
        let archive = self.scratch.archive();
        let report = archive.check();
        assert_eq!(report["faults"], 0, "{report:#}");
        let lost = archive.properties();
        assert!(!lost.contains_key("NCCL::COUNT::COLL::LOST"), "{lost:#?}");
    }
}

pub(crate) fn counts(archive: &Archive) -> BTreeMap<String, u64> {
    let properties = archive.properties().into_iter();
    let ours = properties.filter_map(|(name, value)| {
        let name = name.strip_prefix("NCCL::SCOREP::")?.to_owned();
        Some((name, value.parse().ok()?))
    });
    ours.collect()
}

/// All-reduces over the network as NCCL 2.28 and later reports them; the proxy is a thread of its own.
pub(crate) fn all_reduces(number: u32) -> String {
    format!(
        "init c id=0x77 name=world ranks=1 rank=0
thread proxy {{
repeat {number} {{
barrier begun%i 2
start s%i ProxyOp ctx=c parent=o%i rank=0 channel=0 peer=0 steps=1 chunk_bytes=64 is_send=1
start r%i ProxyOp ctx=c parent=o%i rank=0 channel=0 peer=0 steps=1 chunk_bytes=64
sleep 1ms
stop s%i
stop r%i
barrier ended%i 2
}}
}}
repeat {number} {{
start g%i GroupApi ctx=c depth=1
state g%i GroupStartApiStop
start a%i CollApi ctx=c parent=g%i func=AllReduce count=16 datatype=ncclFloat32 stream=0x7
stop a%i
state g%i GroupEndApiStart
start k%i KernelLaunch ctx=c parent=g%i stream=0x7
stop k%i
start p%i Group ctx=c
start o%i Coll ctx=c parent=a%i group=p%i rank=0 sequence=%i func=AllReduce count=16 datatype=ncclFloat32 channels=1 algorithm=RING protocol=LL
stop o%i
stop p%i
stop g%i
barrier begun%i 2
barrier ended%i 2
}}
join proxy
sleep 5ms
finalize c
"
    )
}

/// A directory with the plugin under the name that Score-P looks for.
pub(crate) fn substrate_folder(scratch: &Scratch) -> PathBuf {
    let folder = scratch.path().join("lib");
    std::fs::create_dir(&folder).expect("a directory");
    let link = folder.join("libscorep_substrate_nccl_otf2.so");
    std::os::unix::fs::symlink(built::plugin(), link).expect("a link");
    folder
}
