//! The arguments of `nccl-otf2 run`, the plugin's variables as options, and the variables that the command gets.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fmt, fs};

use crate::output;
use crate::plugin_slot::{
    CHAIN, ChainedPlugin, DEFAULT, INJECTION, Injection, Library, Loader, OURS, Search, behind, env_plugin, injection,
    search,
};
use anyhow::{Context as _, Result, anyhow, bail, ensure};
use clap::{Args, ValueHint};
use journal::part::environment::JobEnvironment;
use journal::part::{DUMPS, Dump};
use journal::{host, part};
use settings::{Config, NvtxChoice, PLUGIN, TopologyChoice, VARIABLES};

#[derive(Debug, Args)]
pub(crate) struct Settings {
    /// What to record: light, standard or full, kinds of events, or NCCL's mask as a number
    #[arg(long, value_name = "SET", value_hint = ValueHint::Other)]
    events: Option<String>,

    /// Record only these steps: from one collective of the largest communicator to another, such as 100-200 or
    /// 1-3,1000-; or the program's NVTX ranges with this name, such as step:100-200 or backward
    #[arg(long, value_name = "[NAME:]FIRST-LAST|NAME", value_hint = ValueHint::Other)]
    steps: Option<String>,

    /// Keep only the end of each process's recording: the last 64M, or a size (=256M), a time (=120s) or both (=1G,120s)
    #[arg(long, value_name = "SIZE,SECONDSs", num_args = 0..=1, require_equals = true, value_hint = ValueHint::Other)]
    #[expect(clippy::option_option, reason = "clap's form of an option whose value may be left out")]
    flight: Option<Option<String>>,

    /// Write the archive after the command has ended, not when its processes end
    #[arg(long)]
    offline: bool,

    /// Keep the journals, so that another version can write the archive again
    #[arg(long)]
    keep_journal: bool,

    /// Maximum disk space for the recording of one process, such as 512M or 8G
    #[arg(long, value_name = "SIZE", value_hint = ValueHint::Other)]
    max_size: Option<String>,

    /// How much of the recording goes into the archive: light, standard or full
    #[arg(long, value_name = "light|standard|full", value_hint = ValueHint::Other)]
    level: Option<String>,

    /// Which NVTX ranges to record: auto (NCCL's and the program's), nccl, all (those of libraries too) or off
    #[arg(long, value_name = "auto|nccl|all|off", value_hint = ValueHint::Other)]
    nvtx: Option<String>,

    /// Whether NCCL writes its topology and channels for the archive: auto (not where NVLink connects hosts), on or off
    #[arg(long, value_name = "auto|on|off", value_hint = ValueHint::Other)]
    topology: Option<String>,

    /// Directory for journals while the job runs, such as one on a local disk
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
                    "--steps names the range {name:?}, but --nvtx (NCCL_OTF2_NVTX) excludes the program's ranges; use \
                    --nvtx auto"
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
                bail!("--flight takes at most one size and one time, such as 1G,120s");
            }
        }
        Ok((size, seconds))
    }
}

/// Prints what the plugin will say of the environment's variables, but for those that options replace.
pub(super) fn note_bad_variables(given: &Variables) {
    for remark in Config::from_environment().remarks {
        if !given.iter().any(|(name, _)| remark.strip_prefix(name).is_some_and(|rest| rest.starts_with('='))) {
            output::note(remark);
        }
    }
}

/// Examples, and the plugin's variables from its own table.
pub(crate) fn help() -> String {
    let mut text = "\
Examples:
  nccl-otf2 run -- ./all_reduce_perf -g 8
  nccl-otf2 run -o trace-%j -- torchrun --nproc-per-node 8 train.py
  nccl-otf2 run -o trace-%j --events full --steps 1000-1100 -- torchrun --nproc-per-node 8 train.py
  nccl-otf2 run -o trace --flight=120s -- python serve.py     (then `nccl-otf2 dump trace`)
  srun nccl-otf2 run -o trace-%j -- python train.py

The command runs as it would without the tool, with the same stdin, stdout, stderr, signals and exit code. Under a \
launcher, put `nccl-otf2 run` in front of the program and give every rank the same DIR.

DIR belongs to one job: %j in its name is the job id (without one, date, time and process id), %h the host, %% a \
percent sign. If DIR belongs to another job, this job is recorded into DIR/jobs/JOB. --append makes this run part of \
the job in DIR. To record job steps that have ids of their own into one archive, set NCCL_OTF2_JOB.

NCCL loads a single profiler plugin: the one that it would load without the tool is chained behind this project's \
plugin (--no-chain: not called). NVTX passes ranges to a single tool: if NVTX_INJECTION64_PATH already names another \
tool, that tool keeps them.

The options set variables of the plugin for the command only; without an option, a variable in the environment applies:
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

/// The short name by which `NCCL_PROFILER_PLUGIN` may name this plugin.
const BY_NAME: &str = "otf2";

/// Makes NCCL and NVTX load the plugin, chains the plugin that it replaces, and prints notes on what others have set.
struct PluginPlacement {
    set: crate::plugin_slot::Variables,
    loader: Loader,
    /// Whether to print notes. They hold for all processes of a job, so only one prints them.
    is_first: bool,
}

/// The variables that make the command's processes load the plugin. Fails if the file is not this project's plugin, or
/// is damaged.
pub(super) fn plugin_variables(plugin: &Path, request: &Request, is_first: bool) -> Result<Variables> {
    let places = PluginPlacement {
        set: crate::plugin_slot::Variables::from_environment(),
        loader: Loader::from_environment(),
        is_first,
    };
    places.examine(plugin)?;
    let value = if request.by_name {
        let file = plugin.file_name();
        file.ok_or_else(|| anyhow!("{} has no file name", plugin.display()))?
    } else {
        plugin.as_os_str()
    };
    let mut variables: Variables = vec![(PLUGIN, value.to_owned())];
    if request.by_name {
        let directory = plugin.parent().map(Path::to_owned).into_iter();
        let searched = env::var_os("LD_LIBRARY_PATH").filter(|value| !value.is_empty());
        let searched: Vec<_> = searched.iter().flat_map(env::split_paths).collect();
        let joined = env::join_paths(directory.chain(searched))
            .with_context(|| format!("{} cannot be in LD_LIBRARY_PATH", plugin.display()))?;
        variables.push(("LD_LIBRARY_PATH", joined));
    }
    let chain = places.sound_chain();
    let displaced = places.displaced(&value.to_string_lossy(), request.no_chain);
    variables.extend(chain.or(displaced).map(|chain| (CHAIN, chain.into())));
    places.warn_overruled();
    places.ranges(plugin, request, &mut variables);
    Ok(variables)
}

impl PluginPlacement {
    fn note(&self, text: impl fmt::Display) {
        if self.is_first {
            output::note(text);
        }
    }

    /// Fails unless the file is this project's plugin. A truncated library would kill each process that loads it.
    fn examine(&self, plugin: &Path) -> Result<()> {
        let library = Library::read(plugin).and_then(|library| Ok((library.as_profiler()?, library)));
        let (profiler, library) = library.context("the plugin cannot be used (--plugin names another one)")?;
        ensure!(profiler == OURS, "{} is {profiler}, not this project's plugin (--plugin FILE)", plugin.display());
        // The command may start its processes on other machines.
        if let Err(error) = library.fits_here() {
            self.note(format_args!("{error}: processes on this machine cannot load it"));
        }
        Ok(())
    }

    /// The user's own `NCCL_OTF2_CHAIN` without unusable plugins, which may kill processes; `None` if all are usable.
    fn sound_chain(&self) -> Option<String> {
        let names: Vec<&str> = self.set.get(CHAIN)?.value.split(',').map(str::trim).collect();
        let is_usable = |name: &&str| {
            let found = behind(&self.loader, name);
            if let ChainedPlugin::Unusable(reason) = &found {
                self.note(format_args!("{CHAIN}={name}: {reason}; it is left out"));
            }
            !matches!(found, ChainedPlugin::Unusable(_))
        };
        let sound: Vec<&str> = names.iter().copied().filter(is_usable).collect();
        (sound.len() < names.len()).then(|| sound.join(","))
    }

    /// Prints which plugin NCCL would have loaded. Returns its name if this plugin is to call it.
    fn displaced(&self, value: &str, no_chain: bool) -> Option<String> {
        let setting = self.set.get(PLUGIN).map(|setting| (setting, setting.value.as_str()));
        let name = setting.map_or(DEFAULT, |(_, name)| name);
        if name == value {
            return None;
        }
        let what =
            setting.map_or_else(|| format!("{name}, which NCCL loads by default,"), |setting| setting.0.to_string());
        let replaced = format!("{what} is replaced by {value}");
        let only = "NCCL loads one profiler plugin only";
        let found = match search("profiler", u32::MAX, setting.map(|(_, name)| name)) {
            Search::Nothing => return None,
            Search::Program => ChainedPlugin::Unusable("it is the program itself".to_owned()),
            Search::Names(_) if name.contains(',') => {
                ChainedPlugin::Unusable(format!("commas separate names in {CHAIN}"))
            }
            Search::Names(_) => behind(&self.loader, name),
        };
        let (file, profiler) = match found {
            ChainedPlugin::Plugin(file, profiler) => (file, profiler),
            ChainedPlugin::Ours => return None,
            // The setting may name this plugin, which need not be where the loader looks.
            ChainedPlugin::Missing(_) if setting.is_none() || name == BY_NAME => return None,
            ChainedPlugin::Missing(reason) | ChainedPlugin::Unusable(reason) => {
                self.note(format_args!(
                    "{replaced}: {only}, and the other plugin cannot be chained behind it: \
                    {reason}"
                ));
                return None;
            }
        };
        match self.set.get(CHAIN) {
            Some(chain) if self.is_in(&chain.value, &file) => None,
            Some(_) => {
                self.note(format_args!("{replaced}: {only}, and {CHAIN} is set but does not name it"));
                None
            }
            None if no_chain => {
                self.note(format_args!("{replaced}: {only}"));
                None
            }
            None => {
                let file = file.display();
                self.note(format_args!(
                    "{replaced}, which chains {profiler} ({file}) behind itself; --no-chain leaves it out"
                ));
                Some(name.to_owned())
            }
        }
    }

    fn is_in(&self, chain: &str, file: &Path) -> bool {
        chain.split(',').any(|name| match behind(&self.loader, name.trim()) {
            ChainedPlugin::Plugin(found, _) => found.canonicalize().ok() == file.canonicalize().ok(),
            _ => false,
        })
    }

    fn warn_overruled(&self) {
        if let Some((given, file)) = env_plugin(&self.set, &self.loader) {
            self.note(format_args!(
                "{given}: NCCL 2.28.7 and later reads its variables from {}, which can override {PLUGIN} \
                (NCCL_ENV_PLUGIN=none disables it)",
                file.display()
            ));
        }
    }

    /// Sets NVTX's injection, unless another tool has set it: NVTX loads a single library.
    fn ranges(&self, plugin: &Path, request: &Request, variables: &mut Variables) {
        if request.settings.nvtx(self.set.pairs()) == NvtxChoice::Off {
            return;
        }
        match injection(&self.set, &self.loader) {
            (Injection::Unset, _) => variables.push((INJECTION, plugin.into())),
            (Injection::Ours(file), _) if file.canonicalize().ok() == plugin.canonicalize().ok() => {}
            // Replace another copy of the plugin: NVTX would load that copy, but NCCL's events reach only this one.
            (Injection::Ours(file), _) => {
                self.note(format_args!(
                    "{INJECTION} is set to {}, not to another copy of the plugin ({})",
                    plugin.display(),
                    file.display()
                ));
                variables.push((INJECTION, plugin.into()));
            }
            (Injection::Of(who), value) => {
                self.note(format_args!(
                    "{INJECTION}={value} is kept: {who} gets the NVTX ranges, so they are not \
                    recorded"
                ));
            }
            (Injection::Nobody(reason), _) => {
                self.note(format_args!(
                    "{INJECTION} is kept, but {reason}: no tool gets NVTX ranges, so they are not recorded"
                ));
            }
        }
    }
}

/// The directory exists on hosts whose GPUs NVLink may connect with those of other hosts.
const LINKED_HOSTS: &str = "/dev/nvidia-caps-imex-channels";

/// NCCL's variables for topology dumps into the job's directory. Empty if dumps are unwanted or impossible, or if the
/// user has set one of the variables.
pub(super) fn topology_variables(out: &Path, request: &Request, job: &JobEnvironment) -> Result<Variables> {
    let set = crate::plugin_slot::Variables::from_environment();
    let choice = request.settings.topology(set.pairs());
    if choice == TopologyChoice::Off {
        return Ok(Variables::new());
    }
    let is_first = job.rank.unwrap_or(0) == 0;
    let names = || Dump::ALL.into_iter().flat_map(|dump| [dump.variable(), dump.rank_variable()]);
    if let Some(setting) = names().find_map(|name| set.get(name)) {
        if is_first {
            output::note(format_args!("{setting} is kept: the archive has what NCCL writes there, if it can be found"));
        }
        return Ok(Variables::new());
    }
    if choice == TopologyChoice::Auto && Path::new(LINKED_HOSTS).exists() {
        // From 2.24 on, the processes of linked hosts write a dump together, and all wait for one without the variable.
        if is_first {
            output::note(
                "NVLink may connect this host with others, so NCCL's topology is not recorded (use --topology on if \
                all processes of the job run under this tool)",
            );
        }
        return Ok(Variables::new());
    }
    let directory = out.join(DUMPS);
    if let Err(error) = host::directories(&directory) {
        if is_first {
            let directory = directory.display();
            output::note(format_args!(
                "cannot make {directory} ({error}): NCCL's topology is not recorded (remove what is there, or choose \
                 --topology off)"
            ));
        }
        return Ok(Variables::new());
    }
    let mut variables = Variables::new();
    for dump in Dump::ALL {
        let path = directory.join(dump.file_name(0, 0));
        let path = path.to_str().ok_or_else(|| anyhow!("{}: the name is not UTF-8", path.display()))?;
        variables.push((dump.variable(), path.into()));
        variables.push((dump.rank_variable(), part::rank(Some(0)).into()));
    }
    Ok(variables)
}

/// Removes the directory of dumps if it is empty.
pub(super) fn tidy(out: &Path) {
    // `remove_dir` fails unless the directory is empty.
    let _has_dumps = fs::remove_dir(out.join(DUMPS));
}

#[derive(Debug, Args)]
#[command(after_long_help = help(), override_usage = "nccl-otf2 run [OPTIONS] [--] COMMAND [ARGUMENT]...")]
pub(crate) struct Request {
    /// Job directory; %j is the job id [default: NCCL_OTF2_DIR, else nccl-otf2-COMMAND-JOB, without a job id with date
    /// and time]
    #[arg(short, long, visible_alias = "output", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(super) out: Option<PathBuf>,

    /// Replace the archive in DIR
    #[arg(long, conflicts_with = "append")]
    pub(super) force: bool,

    /// Add this run's processes to the archive in DIR
    #[arg(long)]
    pub(super) append: bool,

    /// Plugin to load [default: the one beside this program, in ../lib or in ../lib64]
    #[arg(long, value_name = "FILE")]
    pub(super) plugin: Option<PathBuf>,

    /// Let NCCL find the plugin by name on LD_LIBRARY_PATH: NCCL 2.27.3 loads no plugin by its path
    #[arg(long)]
    pub(super) by_name: bool,

    /// Do not chain the profiler plugin that NCCL would load without this tool
    #[arg(long)]
    pub(super) no_chain: bool,

    #[command(flatten)]
    pub(super) settings: Settings,

    /// Do not complete the archive if processes were killed; leave that to `nccl-otf2 finalize`
    #[arg(long)]
    pub(super) no_finalize: bool,

    /// Command with its arguments; options after it belong to the command
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    #[arg(value_hint = ValueHint::CommandWithArguments)]
    pub(super) command: Vec<OsString>,
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
            ("--flight=64M,1G", "--flight takes at most one size and one time"),
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
