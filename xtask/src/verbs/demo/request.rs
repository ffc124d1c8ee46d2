//! The demo's options.

use std::path::PathBuf;

use crate::failure::{Failure, Result};
use crate::options::{Options, unknown};

pub(super) const HELP: &str = "\
Records a real NCCL library with the plugin, writes the archive, checks it and counts what is in it.

Usage: cargo xtask demo [--nccl VERSION]... [--fake | --real] [--out DIR] [--keep]

  --nccl VERSION  the published release to run (default 2.32.3, or with GPUs
                  the NCCL that is installed); may be given more than once
  --fake          emulated devices, even where there are GPUs
  --real          this machine's GPUs, even if there is only one
  --out DIR       where to put it (default target/demo/VERSION; with several versions DIR/VERSION)
  --keep          keep the journals from which the archive was written

Four ranks run in two processes with two threads each; on a machine with GPUs, one rank on each of at most four.
Without a GPU NCCL runs on the emulated devices of tests/doubles/fake-gpu: everything NCCL does on the host and in the
network is real, the durations of kernels are not.
";

pub(super) struct Request {
    /// The releases asked for, each once; none means that the choice is ours.
    pub(super) versions: Vec<String>,
    pub(super) devices: Choice,
    pub(super) out: Option<PathBuf>,
    pub(super) keep: bool,
}

/// What the user said about devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Choice {
    WhatIsThere,
    Fake,
    Real,
}

impl Request {
    /// `None` when help was asked for.
    pub(super) fn parse(words: &[String]) -> Result<Option<Self>> {
        let mut request = Self {
            versions: Vec::new(),
            devices: Choice::WhatIsThere,
            out: None,
            keep: false,
        };
        let mut options = Options::new(words);
        while let Some(word) = options.next()? {
            match word {
                "-h" | "--help" => return Ok(None),
                "--nccl" => {
                    let version = options.value(word)?.to_owned();
                    if !request.versions.contains(&version) {
                        request.versions.push(version);
                    }
                }
                "--fake" => request.choose(Choice::Fake)?,
                "--real" => request.choose(Choice::Real)?,
                "--out" => request.out = Some(options.value(word)?.into()),
                "--keep" => request.keep = true,
                other => return Err(unknown(other, HELP)),
            }
        }
        Ok(Some(request))
    }

    fn choose(&mut self, choice: Choice) -> Result<()> {
        if self.devices != Choice::WhatIsThere && self.devices != choice {
            return Err(Failure::usage("--fake and --real exclude each other"));
        }
        self.devices = choice;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Option<Request>> {
        Request::parse(
            &line
                .split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn each_release_runs_once() {
        let request = parse("--nccl 2.28.9 --nccl=2.32.3 --nccl 2.28.9")
            .unwrap()
            .unwrap();
        assert_eq!(request.versions, ["2.28.9", "2.32.3"]);
    }

    #[test]
    fn contradictions_and_unknown_words_are_refused() {
        assert!(parse("--fake --real").is_err());
        assert!(parse("--quickly").is_err());
        assert!(
            parse("--fake --fake")
                .unwrap()
                .is_some_and(|request| request.devices == Choice::Fake)
        );
        assert!(parse("--help").unwrap().is_none());
    }
}
