//! One run, and everything that its archive is checked against.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use super::super::readers;
use super::cells::Cell;
use super::memcheck;
use super::table::Verdict;
use crate::cache;
use crate::cargo::{Tools, otf2_print};
use crate::process::{self, Captured};
use crate::python::Python;

/// Elements of an operation: enough for several proxy steps in each protocol.
const COUNT: &str = "10000";
/// After this `nccl-host` kills its processes; a run takes 2 to 20 s on two idle cores, ten times as long on busy ones.
const LIMIT_SECONDS: &str = "300";
const RELAY: &str = "libnccl-profiler-relay.so";

pub(super) struct Bench {
    pub(super) python: Python,
    pub(super) tools: Tools,
    pub(super) probes: PathBuf,
}

pub(super) struct Run<'a> {
    pub(super) cell: &'static Cell,
    pub(super) release: &'a str,
    pub(super) library: &'a Path,
    pub(super) folder: PathBuf,
}

impl Bench {
    /// Runs and judges; an `Err` means a problem of this machine, not of the run.
    pub(super) fn judge(&self, run: &Run<'_>) -> Result<(Verdict, Duration)> {
        let exception = run.cell.exception(run.release);
        if let Some(exception) = exception.filter(|exception| exception.instead.is_none()) {
            return Ok((Verdict::Impossible { why: exception.why.to_owned() }, Duration::ZERO));
        }
        cache::remove(&run.folder)?;
        cache::create(&run.folder)?;
        let started = Instant::now();
        let verdict = match self.run(run).and_then(|()| self.compare(run)) {
            Ok(remarks) => Verdict::Good { remarks, around: exception.map(|exception| exception.why.to_owned()) },
            Err(error) => Verdict::Failed { why: format!("{error:#}") },
        };
        Ok((verdict, started.elapsed()))
    }

    /// `nccl-host` checks the result of each operation, and exits with 0 only if all are right.
    fn run(&self, run: &Run<'_>) -> Result<()> {
        let mut command = Command::new(&self.tools.nccl_otf2);
        process::without(&mut command, &["NCCL_"])
            .args(["run", "--events", "full", "--keep-journal", "--plugin"])
            .arg(&self.tools.plugin)
            .args(["--nvtx", if run.cell.has("--ranges") { "auto" } else { "off" }, "--out"])
            .arg(run.archive())
            // `run` takes no plugin of others.
            .args(["--", "env"])
            .arg(format!("NCCL_PROFILER_PLUGIN={}", self.probes.join(RELAY).display()));
        let (count, limit_seconds) = if run.cell.memcheck {
            memcheck::in_front(&mut command, &run.folder);
            // The archive is not written under memcheck: `run` writes it afterwards.
            command.env("NCCL_OTF2_FINALIZE", "offline");
            (memcheck::COUNT, memcheck::LIMIT_SECONDS)
        } else {
            (COUNT, LIMIT_SECONDS)
        };
        command
            .arg(&self.tools.nccl_host)
            .arg("--lib")
            .arg(run.library)
            .arg(format!("--fake-gpu={}", self.tools.fake_gpu.display()))
            .args(["--count", count, "--timeout", limit_seconds, "--log"])
            .arg(run.log())
            .args(run.arguments())
            .envs(run.cell.settings.iter().copied())
            .env("LD_LIBRARY_PATH", &self.probes)
            .env("RELAY_PLUGIN", &self.tools.plugin)
            .env("RELAY_OUT", run.relay());
        let output = process::capture(&mut command)?;
        cache::write(&run.folder.join("output"), format!("{}{}", output.out, output.err))?;
        match output.status.code() {
            Some(0) => Ok(()),
            Some(1) => bail!("the program got wrong results from NCCL"),
            Some(124) => bail!("the run hung and was killed"),
            _ => bail!("the run ended with {}: {}", output.status, output.last()),
        }
    }

    fn compare(&self, run: &Run<'_>) -> Result<Vec<String>> {
        let anchor = run.archive().join("traces.otf2");
        let text = otf2_print(&anchor)?;
        readers::agree(&self.python, &self.tools.nccl_otf2, &anchor).context("readers")?;
        only("nccl.algo", run.cell.algorithm, &text)?;
        only("nccl.proto", run.cell.protocol, &text)?;
        if run.cell.memcheck {
            let found = memcheck::found(&run.folder)?;
            let (ours, others) = (found.ours.len(), found.others);
            let first = found.ours.first().map_or("", String::as_str);
            ensure!(ours == 0, "memcheck: {ours} errors of the plugin ({others} of others): {first}");
        }
        let check = process::capture(Command::new(&self.tools.nccl_otf2).args(["check", "--json"]).arg(&anchor))?;
        ensure!(check.status.success(), "check: {}", fault(&check));
        let mut counts = self.python.script("compare_counts.py");
        if !run.cell.has("--exact") {
            counts.arg("--any-proxy");
        }
        succeeds("counts", counts.arg(&anchor).arg(run.log()))?;
        let mut callbacks = self.python.script("callbacks.py");
        succeeds("callbacks", callbacks.arg(run.relay()).arg(run.archive()))?;
        rules(&check)
    }
}

impl Run<'_> {
    fn archive(&self) -> PathBuf {
        self.folder.join("archive")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    fn relay(&self) -> PathBuf {
        self.folder.join("relay")
    }

    /// The cell's arguments, and those that avoid a defect of this release.
    fn arguments(&self) -> impl Iterator<Item = &'static str> {
        let exception = self.cell.exception(self.release);
        let instead = exception.and_then(|exception| exception.instead);
        let words = |words: &'static str| words.split(' ');
        words(self.cell.arguments).chain(instead.into_iter().flat_map(words))
    }
}

/// Checks that the archive names exactly what was requested from NCCL (`NCCL_PROTO`).
fn only(attribute: &str, wanted: Option<&str>, printed: &str) -> Result<()> {
    let Some(wanted) = wanted else { return Ok(()) };
    let mut seen = false;
    let quoted = format!("\"{attribute}\" <");
    for part in printed.split(quoted.as_str()).skip(1) {
        // …26>; STRING; "LL" <1>
        let Some(value) = part.split('"').nth(1) else {
            continue;
        };
        // The definition of the attribute itself has no value.
        if part.split('"').next().is_some_and(|head| head.contains("STRING;")) {
            ensure!(value == wanted, "{attribute}: {wanted} was asked for, but the archive says {value}");
            seen = true;
        }
    }
    ensure!(seen, "{attribute}: the archive has none");
    Ok(())
}

/// Fails with the numbers that differ, or with the last words of the output.
fn succeeds(what: &str, command: &mut Command) -> Result<()> {
    let output = process::capture(command)?;
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let wrong: Vec<String> = output.out.lines().filter(|line| line.contains("WRONG")).map(words).collect();
    let reason = if wrong.is_empty() { output.last().to_owned() } else { wrong.join("; ") };
    ensure!(output.status.success(), "{what}: {reason}");
    Ok(())
}

/// The first finding of `check --json`, or the last words of its output.
fn fault(output: &Captured) -> String {
    let json: Value = serde_json::from_str(&output.out).unwrap_or_default();
    let findings = json["findings"].as_array().into_iter().flatten();
    let mut faults = findings.filter(|finding| finding["severity"] == "fault");
    let message = faults.next().and_then(|fault| fault["message"].as_str());
    message.unwrap_or(output.last()).to_owned()
}

/// The rules with remarks of `check --json`: the keys of its list of rules.
fn rules(output: &Captured) -> Result<Vec<String>> {
    let json: Value = serde_json::from_str(&output.out).context("check --json")?;
    let rules = json["rules"].as_object().context("check --json has no rules")?;
    Ok(rules.keys().cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "ATTRIBUTE 26 Name: \"nccl.proto\" <26>, Description: \"x\", Type: STRING\n\
        (\"nccl.proto\" <26>; STRING; \"LL\" <1>), (\"nccl.proto\" <26>; STRING; \"LL\" <1>)\n";

    #[test]
    fn another_value_or_none_is_seen() {
        only("nccl.proto", Some("LL"), PRINTED).unwrap();
        assert!(only("nccl.proto", Some("LL128"), PRINTED).is_err());
        assert!(only("nccl.algo", Some("TREE"), PRINTED).is_err());
        only("nccl.algo", None, PRINTED).unwrap();
    }
}
