//! The plugin's variables as options.

use std::ffi::OsString;
use std::fmt::Write as _;

use anyhow::{Result, bail};
use clap::{Args, ValueHint};
use settings::{Config, NvtxChoice, TopologyChoice, VARIABLES};

#[derive(Debug, Args)]
pub(crate) struct Settings {
    /// What to record: light, standard or full, kinds of events, or NCCL's mask as a number
    #[arg(long, value_name = "SET", value_hint = ValueHint::Other)]
    events: Option<String>,

    /// Record only these steps: from one collective of the largest communicator to another, such as 100-200 or
    /// 1-3,1000-; or the program's NVTX ranges with this name, such as step:100-200 or backward
    #[arg(long, value_name = "[NAME:]FIRST-LAST|NAME", value_hint = ValueHint::Other)]
    steps: Option<String>,

    /// Keep only the end of each process's recording: the last 64M, 256M (=256M), 120 s (=120s), or both (=1G,120s)
    #[arg(long, value_name = "SIZE|SECONDSs", num_args = 0..=1, require_equals = true, value_hint = ValueHint::Other)]
    #[expect(clippy::option_option, reason = "clap's form of an option whose value may be left out")]
    flight: Option<Option<String>>,

    /// Write the archive after the command has ended, not at the end of its processes
    #[arg(long)]
    offline: bool,

    /// Keep what the processes recorded, so that another version can write the archive again
    #[arg(long)]
    keep_journal: bool,

    /// Most disk space for the recording of one process, such as 512M or 8G
    #[arg(long, value_name = "SIZE", value_hint = ValueHint::Other)]
    max_size: Option<String>,

    /// What of the recorded goes into the archive: light, standard or full
    #[arg(long, value_name = "LEVEL", value_hint = ValueHint::Other)]
    level: Option<String>,

    /// Metrics to write: bytes-in-flight, bandwidth, network-bandwidth (a list), all or none
    #[arg(long, value_name = "LIST", value_hint = ValueHint::Other)]
    metrics: Option<String>,

    /// What the rows of communicators are: stream (of the GPU) or cpu (a thread)
    #[arg(long, value_name = "WHAT", value_hint = ValueHint::Other)]
    comm_locations: Option<String>,

    /// Which communication records collectives have: blocking, nonblocking or none
    #[arg(long, value_name = "WHICH", value_hint = ValueHint::Other)]
    collectives: Option<String>,

    /// Which NVTX ranges to record: auto (NCCL's and the program's), nccl, all (those of libraries too) or off
    #[arg(long, value_name = "WHICH", value_hint = ValueHint::Other)]
    nvtx: Option<String>,

    /// Whether NCCL writes its topology and channels for the archive: auto (not where NVLink connects hosts), on or off
    #[arg(long, value_name = "WHETHER", value_hint = ValueHint::Other)]
    topology: Option<String>,

    /// Directory for recordings while the job runs, such as a local disk's
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    journal_dir: Option<String>,
}

pub(crate) type Variables = Vec<(&'static str, OsString)>;

impl Settings {
    pub(crate) fn keep_journal(&self) -> bool {
        self.keep_journal || Config::from_environment().keep_journal
    }

    /// Whether the environment has recording switched off, and no option switches it on.
    pub(super) fn is_off(&self) -> bool {
        self.flight.is_none() && !Config::from_environment().enabled
    }

    /// Which NVTX ranges the command's processes record: by the option, else by the variables that are `set`.
    pub(super) fn nvtx(&self, set: Vec<(String, String)>) -> NvtxChoice {
        let given = self.nvtx.as_ref().map(|value| vec![("NCCL_OTF2_NVTX".to_owned(), value.clone())]);
        Config::from_variables(given.unwrap_or(set).into_iter()).nvtx
    }

    /// Whether NCCL is to write its topology: by the option, else by the variables that are `set`.
    pub(super) fn topology(&self, set: Vec<(String, String)>) -> TopologyChoice {
        let given = self.topology.as_ref().map(|value| vec![("NCCL_OTF2_TOPOLOGY".to_owned(), value.clone())]);
        Config::from_variables(given.unwrap_or(set).into_iter()).topology
    }

    pub(crate) fn variables(&self) -> Result<Variables> {
        let (flight_size, flight_seconds) = self.flight_limits()?;
        let texts = [
            ("NCCL_OTF2_EVENTS", "--events", &self.events),
            ("NCCL_OTF2_STEPS", "--steps", &self.steps),
            ("NCCL_OTF2_FLIGHT_SIZE", "--flight", &flight_size),
            ("NCCL_OTF2_FLIGHT_SECONDS", "--flight", &flight_seconds),
            ("NCCL_OTF2_MAX_SIZE", "--max-size", &self.max_size),
            ("NCCL_OTF2_JOURNAL_DIR", "--journal-dir", &self.journal_dir),
            ("NCCL_OTF2_LEVEL", "--level", &self.level),
            ("NCCL_OTF2_METRICS", "--metrics", &self.metrics),
            ("NCCL_OTF2_COMM_LOCATIONS", "--comm-locations", &self.comm_locations),
            ("NCCL_OTF2_COLLECTIVES", "--collectives", &self.collectives),
            ("NCCL_OTF2_NVTX", "--nvtx", &self.nvtx),
            ("NCCL_OTF2_TOPOLOGY", "--topology", &self.topology),
        ];
        let mut variables = Variables::new();
        for (name, option, text) in texts {
            let Some(text) = text else { continue };
            let pair = (name.to_owned(), text.clone());
            if let Some(remark) = Config::from_variables([pair].into_iter()).remarks.first() {
                // The plugin would fall back to a default, but here the user can correct the option.
                let reason = remark.rsplit_once("; ").map_or(remark.as_str(), |parts| parts.0);
                bail!("{option}: {reason}");
            }
            variables.push((name, text.into()));
        }
        self.check_steps(&variables)?;
        if self.flight.is_some() {
            variables.push(("NCCL_OTF2_MODE", "flight".into()));
        }
        if self.offline {
            variables.push(("NCCL_OTF2_FINALIZE", "offline".into()));
        }
        if self.keep_journal {
            variables.push(("NCCL_OTF2_KEEP_JOURNAL", "1".into()));
        }
        Ok(variables)
    }

    /// Named steps need the ranges of the program.
    fn check_steps(&self, given: &Variables) -> Result<()> {
        let steps = given.iter().filter(|(name, _)| *name == "NCCL_OTF2_STEPS");
        let pairs = steps.filter_map(|(name, text)| Some(((*name).to_owned(), text.to_str()?.to_owned())));
        let named = Config::from_variables(pairs).steps.name().map(str::to_owned);
        let choice = match self.nvtx {
            Some(_) => self.nvtx(Vec::new()),
            None => Config::from_environment().nvtx,
        };
        match (named, choice) {
            (Some(name), NvtxChoice::Off | NvtxChoice::Nccl) => {
                bail!(
                    "--steps names the range {name:?}, but --nvtx (NCCL_OTF2_NVTX) leaves out the program's ranges; use --nvtx auto"
                )
            }
            _ => Ok(()),
        }
    }

    fn flight_limits(&self) -> Result<(Option<String>, Option<String>)> {
        let (mut size, mut seconds) = (None, None);
        for limit in self.flight.iter().flatten().flat_map(|limits| limits.split(',')) {
            let limit = limit.trim();
            let number = limit.strip_suffix(['s', 'S']);
            let is_number = |text: &&str| text.chars().all(|letter| letter.is_ascii_digit());
            let (limit, place) = match number.filter(is_number) {
                Some(number) => (number, &mut seconds),
                None => (limit, &mut size),
            };
            if place.replace(limit.to_owned()).is_some() {
                bail!("--flight: one size and one time at most, such as 1G,120s");
            }
        }
        Ok((size, seconds))
    }
}

/// Examples, and the plugin's variables from its own table.
pub(crate) fn help() -> String {
    let mut text = "\
Examples:
  nccl-otf2 run -- ./all_reduce_perf -g 8
  nccl-otf2 run -o trace-%j -- torchrun --nproc-per-node 8 train.py
  nccl-otf2 run -o trace-%j --events full --steps 1000-1100 -- torchrun --nproc-per-node 8 train.py
  nccl-otf2 run -o trace --flight=120s -- python serve.py     (and `nccl-otf2 dump trace` to look at it)
  srun nccl-otf2 run -o trace-%j -- python train.py

The command runs as it would without the tool: with its stdin, stdout and stderr, its signals and its exit \
code. Under a launcher the tool stands where the program stood, and every rank names the same DIR.

DIR is one job's: %j in its name is the job id (without one, date, time and process id), %h the host, %% a percent sign. \
What is recorded into the directory of another job goes into DIR/jobs/JOB. --append makes this run part of the job that \
is there; steps with ids of their own become one archive by NCCL_OTF2_JOB.

NCCL loads one profiler plugin: the one that it would load without the tool is called behind this project's \
(--no-chain: not at all). NVTX hands ranges to one tool: where another one has NVTX_INJECTION64_PATH, it stays.

The options set variables of the plugin, for the command only; those that are set already hold where there \
is no option:
"
    .to_owned();
    for variable in VARIABLES {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  {}: {}\n      {}\n", variable.name, plain(variable.values), plain(variable.doc));
    }
    text
}

/// Converts documentation text for a terminal: no backquotes around code, and pages by their names.
fn plain(markdown: &str) -> String {
    let mut text = markdown.replace('`', "");
    while let Some((before, rest)) = text.split_once('[')
        && let Some((page, rest)) = rest.split_once("](")
        && let Some((_, after)) = rest.split_once(')')
    {
        text = format!("{before}docs/{page}{after}");
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        settings: Settings,
    }

    #[test]
    fn a_flight_has_a_size_or_a_time_or_both() {
        let variables = |flight: &str| -> Result<String> {
            let variables = Line::parse_from(["run", flight]).settings.variables()?.into_iter();
            let shown =
                |(name, value): (&str, OsString)| format!("{}={}", &name["NCCL_OTF2_".len()..], value.display());
            Ok(variables.map(shown).collect::<Vec<_>>().join(" "))
        };
        for (flight, meant) in [
            ("--flight", "MODE=flight"),
            ("--flight=256M", "FLIGHT_SIZE=256M MODE=flight"),
            ("--flight=120s", "FLIGHT_SECONDS=120 MODE=flight"),
            ("--flight=1G, 90S", "FLIGHT_SIZE=1G FLIGHT_SECONDS=90 MODE=flight"),
        ] {
            assert_eq!(variables(flight).expect("good"), meant);
        }
        for (flight, reason) in [
            ("--flight=lots", "--flight: NCCL_OTF2_FLIGHT_SIZE=lots: not a size"),
            ("--flight=0s", "not a number of seconds"),
            ("--flight=1M", "less than 8M"),
            ("--flight=64M,1G", "--flight: one size and one time"),
        ] {
            let refused = variables(flight).expect_err(flight).to_string();
            assert!(refused.contains(reason), "{flight}: {refused}");
            assert!(!refused.contains("is used"), "the run is refused: {refused}");
        }
    }

    #[test]
    fn the_help_has_every_variable_without_markup() {
        let help = help();
        for variable in VARIABLES {
            assert!(help.contains(variable.name), "{}", variable.name);
            let text = plain(variable.doc);
            assert!(!text.contains(['[', '`']), "{}: {text}", variable.name);
        }
        let markdown = "`off` keeps none ([GUIDE.md](GUIDE.md)), see [A.md](A.md)";
        assert_eq!(plain(markdown), "off keeps none (docs/GUIDE.md), see docs/A.md");
    }
}
