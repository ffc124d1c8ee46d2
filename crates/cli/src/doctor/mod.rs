//! `nccl-otf2 doctor`: predicts what a recording would be like here, from the environment, the NCCL libraries that a
//! job could use, and the tools that NCCL and NVTX would load. Loads and runs no library: reads them as files.

use std::path::{Path, PathBuf};
use std::{env, fs};

use crate::command_line::Exit;
use crate::output::Text;
use crate::plugin::python_packages;
use crate::plugin_slot::{
    ChainedPlugin, FIRST_WITH_ENV_PLUGIN, INJECTION, Injection, Library, Loader, Nccl, OURS, Search, Variables, behind,
    env_plugin, injection, search,
};
use crate::{output, plugin};
use anyhow::Result;
use clap::Args;
use journal::part::environment::JobEnvironment;
use rustix::system::uname;
use schemars::JsonSchema;
use serde::Serialize;
use settings::{Config, NvtxChoice, PLUGIN, shell_word};

mod machine;

const EXAMPLES: &str = "\
Run it where the job will run, with the job's modules, environment and variables: it reads NCCL's library, the \
loader's paths, the variables (also NCCL's files /etc/nccl.conf and ~/.nccl.conf or NCCL_CONF_FILE) and the limits \
there.

  nccl-otf2 doctor                              the NCCL that the loader or the Python on PATH finds
  srun -n1 nccl-otf2 doctor                     on a node of the job
  nccl-otf2 doctor /opt/venv                    a Python environment
  nccl-otf2 doctor ./all_reduce_perf            a program, with the NCCL that it loads or has linked in
  NCCL_OTF2_EVENTS=full nccl-otf2 doctor        the costs and risks of a setting with the NCCL found
  nccl-otf2 doctor --json | jq -r '.findings[] | select(.level == \"problem\") | .text'

Each line is a finding: its level, one sentence, and what to do. Levels are ok, note (good to know), warning \
(something may be missing, slow or wrong) and problem (nothing is recorded, or not what was asked for). The first \
line is the worst finding. No library is loaded and no program is run: NCCL's release and its profiler tables are \
read from the file. One file of 1 MiB is written to the output directory and removed.

The doctor does not see what a job script sets later, quotas, or libraries that a program finds through paths of its \
own.

Exit codes: 0 no problem, 1 a problem, 2 wrong usage, or a named file that cannot be read.";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Request {
    /// NCCL library, program that uses NCCL, or directory of either, such as a Python environment [default: what the
    /// loader and the Python on PATH find]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// Also list what each NCCL does not report
    #[arg(long)]
    all: bool,

    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn doctor(request: &Request) -> Result<Exit> {
    let report = look(request)?;
    if request.json {
        output::json(&report)?;
    } else {
        output::text(&report.text(request.all))?;
    }
    Ok(if report.level == Level::Problem { Exit::Problems } else { Exit::Well })
}

fn look(request: &Request) -> Result<Report> {
    let here = Environment::look();
    let mut findings = Findings::default();
    settings(&here, &mut findings);
    installed(&here, &mut findings);
    chained(&here, &mut findings);
    let found = find(&here, &request.paths, &mut findings)?;
    let rows: Vec<NcclRow> = found.iter().map(|one| machine::predict_recording(&here, one, &mut findings)).collect();
    ranges(&here, &mut findings);
    machine::timing(&here, &found, &mut findings);
    let out = machine::directories(&here, &mut findings);
    machine::clock(&mut findings);
    machine::limits(&mut findings);
    machine::container(&here, &mut findings);
    machine::scorep(&here, &mut findings);
    let releases: Vec<&str> = rows.iter().map(|row| row.release.as_str()).collect();
    let events = settings::event_set(here.config.mask);
    let ready = format!("NCCL {} can be recorded ({events} events) into {}", releases.join(" and "), out.display());
    Ok(findings.report(rows, ready))
}

/// Determines which plugin this NCCL would load, and records it in the NCCL's row.
pub(crate) fn slot(here: &Environment, nccl: &Library, number: u32, row: &mut NcclRow, findings: &mut Findings) {
    let release = row.release.as_str();
    let setting = here.variables.get(PLUGIN);
    let value = setting.map(|setting| setting.value.as_str());
    let given = setting.map_or_else(|| format!("{PLUGIN} is not set"), ToString::to_string);
    overruled(here, number, release, findings);
    let who = format!("{given}: NCCL {release}");
    let advice = workaround(here, number);
    row.plugin_names = match search("profiler", number, value) {
        Search::Names(names) => names,
        Search::Nothing => {
            findings.warning("plugin", format!("{who} loads no profiler"), &advice);
            return;
        }
        Search::Program => {
            let why = "(STATIC_PLUGIN, or its first letters)";
            findings.warning("plugin", format!("{who} uses the program itself as the profiler {why}"), &advice);
            return;
        }
    };
    let Some(file) = row.plugin_names.iter().find_map(|name| here.loader.find(name)) else {
        let what = match row.plugin_names.as_slice() {
            [] => "loads no plugin by its path".to_owned(),
            names => format!("does not find {}", names.join(", nor ")),
        };
        match value {
            Some(_) => findings.problem("plugin", format!("{who} {what}, so nothing would be recorded"), &advice),
            None => {
                let text = format!("{who} {what}: nothing is recorded without nccl-otf2 run");
                findings.note("plugin", text, &advice);
            }
        }
        return;
    };
    let shown = file.display();
    let profiler = match Library::read(&file) {
        Err(error) => {
            findings.problem("plugin", format!("{who} cannot load its plugin: {error}"), &advice);
            None
        }
        Ok(library) if library.architecture != nccl.architecture => {
            let (ours, theirs) = (library.architecture, nccl.architecture);
            let text = format!("{given}: {shown} is for {ours:?}, and NCCL {release} for {theirs:?}");
            findings.problem("plugin", text, &advice);
            None
        }
        Ok(library) => {
            missing(here, &library, findings);
            let profiler = library.as_profiler();
            profiler.map_err(|error| findings.problem("plugin", format!("{given}: {error}"), &advice)).ok()
        }
    };
    match profiler {
        None => {}
        Some(OURS) => findings.ok("plugin", format!("{who} loads {shown}, this project's plugin")),
        Some(other) => {
            let text = format!(
                "{who} loads {other} ({shown}) and not this project's plugin, because NCCL loads only \
                one profiler"
            );
            let behind = format!("{advice} and NCCL_OTF2_CHAIN={shown}: both chain it behind this project's plugin");
            findings.warning("plugin", text, &behind);
        }
    }
    row.plugin = Some(file.display().to_string());
    row.profiler = profiler;
}

fn workaround(here: &Environment, release: u32) -> String {
    let Ok(plugin) = &here.plugin else {
        return "nccl-otf2 run --plugin FILE -- COMMAND, with this project's plugin".to_owned();
    };
    let by_name = if release == 22_703 { " --by-name" } else { "" };
    let folder = shell_word(plugin.parent().unwrap_or(plugin));
    let name = plugin.file_name().unwrap_or_default().display();
    let value = match release {
        22_600.. if release != 22_703 => shell_word(plugin),
        _ => format!("{name} LD_LIBRARY_PATH={folder}:$LD_LIBRARY_PATH"),
    };
    format!("nccl-otf2 run{by_name} -- COMMAND, or export {PLUGIN}={value}")
}

/// Warns if NCCL would take its variables from a plugin, which can overrule the environment.
fn overruled(here: &Environment, number: u32, release: &str, findings: &mut Findings) {
    let Some((given, file)) = env_plugin(&here.variables, &here.loader).filter(|_| number >= FIRST_WITH_ENV_PLUGIN)
    else {
        return;
    };
    let text = format!(
        "{given}: NCCL {release} reads its variables from {}, which can override {PLUGIN} in the environment",
        file.display()
    );
    findings.warning("plugin", text, "NCCL_ENV_PLUGIN=none disables it");
}

pub(crate) fn installed(here: &Environment, findings: &mut Findings) {
    const ADVICE: &str = "nccl-otf2 run --plugin FILE";
    let file = match &here.plugin {
        Ok(file) => file,
        Err(error) => return findings.warning("plugin", error.to_string(), ADVICE),
    };
    match Library::read(file).and_then(|library| library.as_profiler().map(|_| library)) {
        Ok(library) => {
            findings.ok("plugin", format!("nccl-otf2 run loads {}", file.display()));
            missing(here, &library, findings);
        }
        Err(error) => findings.problem("plugin", format!("nccl-otf2 run has no plugin: {error}"), ADVICE),
    }
}

/// Examines the plugins that this one is to call (`NCCL_OTF2_CHAIN`).
pub(crate) fn chained(here: &Environment, findings: &mut Findings) {
    for name in &here.config.chain {
        let (text, advice) = match behind(&here.loader, name) {
            ChainedPlugin::Plugin(file, profiler) => {
                findings.ok(
                    "plugin",
                    format!(
                        "NCCL_OTF2_CHAIN={name}: {profiler} is chained behind this project's \
                    plugin: {}",
                        file.display()
                    ),
                );
                continue;
            }
            ChainedPlugin::Missing(reason) => (reason, "give the path of its file"),
            ChainedPlugin::Ours => {
                ("that is this project's plugin itself".to_owned(), "remove it from NCCL_OTF2_CHAIN")
            }
            ChainedPlugin::Unusable(reason) => (reason, "remove it from NCCL_OTF2_CHAIN"),
        };
        findings.warning("plugin", format!("NCCL_OTF2_CHAIN={name}: {text}; it is left out"), advice);
    }
}

/// Reports which tool receives the NVTX ranges of programs and of NCCL.
pub(crate) fn ranges(here: &Environment, findings: &mut Findings) {
    if here.config.nvtx == NvtxChoice::Off {
        return findings.note("nvtx", "NCCL_OTF2_NVTX=off: NVTX ranges are not recorded", "");
    }
    let plugin = here.plugin.as_ref().map_or_else(|_| "FILE".to_owned(), |file| shell_word(file));
    let export = format!("nccl-otf2 run -- COMMAND, or export {INJECTION}={plugin}");
    let unset = format!("unset {INJECTION}, then {export}");
    match injection(&here.variables, &here.loader) {
        (Injection::Unset, _) => {
            let text = format!("{INJECTION} is not set: NVTX ranges are not recorded without nccl-otf2 run");
            findings.note("nvtx", text, &export);
        }
        (Injection::Ours(file), value) => {
            let real = |file: &Path| file.canonicalize().ok();
            let loaded = profiler(here);
            if loaded.as_deref().is_none_or(|loaded| real(loaded) == real(&file)) {
                return findings.ok("nvtx", format!("{INJECTION}={value}: this project's plugin gets NVTX ranges"));
            }
            let other = loaded.unwrap_or_default();
            let shown = other.display();
            let text = format!(
                "{INJECTION}={value} is a different copy of the plugin than {PLUGIN} names ({shown}): NVTX ranges are \
                not recorded"
            );
            let same = format!("nccl-otf2 run -- COMMAND, or export {INJECTION}={}", shell_word(&other));
            findings.warning("nvtx", text, &same);
        }
        (Injection::Of(who), value) => {
            let text = format!("{INJECTION}={value}: {who} gets the NVTX ranges, so they are not recorded");
            findings.note("nvtx", text, &unset);
        }
        (Injection::Nobody(reason), _) => {
            findings.warning("nvtx", format!("{INJECTION}: {reason}; no tool gets NVTX ranges"), &unset);
        }
    }
}

/// The file of this project's plugin that NCCL would load because of `NCCL_PROFILER_PLUGIN`.
fn profiler(here: &Environment) -> Option<PathBuf> {
    let setting = here.variables.get(PLUGIN)?;
    let is_ours = |file: &PathBuf| Library::read(file).is_ok_and(|library| library.profiler == Some(OURS));
    // Search as one recent release does. `slot` reports releases that read the value differently.
    match search("profiler", FIRST_WITH_ENV_PLUGIN, Some(&setting.value)) {
        Search::Names(names) => names.iter().find_map(|name| here.loader.find(name)).filter(is_ours),
        Search::Nothing | Search::Program => None,
    }
}

fn missing(here: &Environment, library: &Library, findings: &mut Findings) {
    let mut missing = library.needed.iter().filter(|name| here.loader.is_known() && here.loader.find(name).is_none());
    if let Some(missing) = missing.next() {
        let shown = library.path.display();
        let text = format!("{shown} needs {missing}, which the loader does not find: NCCL cannot load it");
        findings.problem("plugin", text, "add its directory to LD_LIBRARY_PATH");
    }
}

const NAMES: [&str; 2] = ["libnccl.so.2", "librccl.so.1"];

pub(crate) struct FoundLibrary {
    pub(crate) library: Library,
    pub(crate) nccl: Nccl,
    pub(crate) by: String,
}

/// Finds the NCCL libraries that a job could use here.
pub(crate) fn find(here: &Environment, named: &[PathBuf], findings: &mut Findings) -> Result<Vec<FoundLibrary>> {
    let mut all = Vec::new();
    for path in named {
        let before = all.len();
        let is_python = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python"));
        if path.is_dir() {
            in_prefix(path, "named", &mut all, findings);
        } else if is_python {
            find_in_python(here, path, &mut all, findings);
        } else {
            in_file(here, path, &mut all, findings)?;
        }
        if all.len() == before {
            let text = format!("no NCCL in {}", path.display());
            findings.problem("nccl", text, "name libnccl.so.2, a program that uses NCCL, or a Python environment");
        }
    }
    if !named.is_empty() {
        return Ok(all);
    }
    for name in NAMES {
        for (file, by) in here.loader.all(name) {
            add(&file, by, &mut all);
        }
    }
    if let Some(python) = python_on_path() {
        find_in_python(here, &python, &mut all, findings);
    }
    if all.is_empty() {
        findings.warning(
            "nccl",
            "no NCCL was found, neither by the loader nor beside the Python on PATH",
            "load the job's modules or environment first, or name the library: nccl-otf2 doctor PATH",
        );
    }
    Ok(all)
}

fn add(file: &Path, by: &str, all: &mut Vec<FoundLibrary>) {
    let is_same = |found: &FoundLibrary| found.library.path.canonicalize().ok() == file.canonicalize().ok();
    if let Some(found) = all.iter_mut().find(|found| is_same(found)) {
        if !found.by.contains(by) {
            found.by = format!("{}; {by}", found.by);
        }
        return;
    }
    let library = Library::read(file).ok().filter(|library| library.nccl.is_some());
    all.extend(
        library.and_then(|library| Some(FoundLibrary { nccl: library.nccl.clone()?, library, by: by.to_owned() })),
    );
}

fn in_file(here: &Environment, path: &Path, all: &mut Vec<FoundLibrary>, findings: &mut Findings) -> Result<()> {
    let library = Library::read(path)?;
    let shown = path.display();
    if library.needed.iter().any(|name| name.starts_with("libscorep")) {
        let text = format!("{shown} is instrumented by Score-P: NCCL calls are also shown in Score-P's trace");
        findings.note("scorep", text, "docs/SCOREP.md");
    }
    for name in library.needed.iter().filter(|name| NAMES.contains(&name.as_str())) {
        match here.loader.find(name) {
            Some(file) => add(&file, &format!("needed by {shown}"), all),
            None => findings.warning(
                "nccl",
                format!("{shown} needs {name}, which the loader does not find"),
                "add its directory to LD_LIBRARY_PATH, unless the program finds it through a path of its own",
            ),
        }
    }
    add(path, "named", all);
    Ok(())
}

fn python_on_path() -> Option<PathBuf> {
    let folders: Vec<PathBuf> = env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect();
    let named = |name: &str| folders.iter().map(|folder| folder.join(name)).find(|file| file.is_file());
    named("python").or_else(|| named("python3"))
}

/// Finds the libraries of a Python interpreter by the usual directory layout, without running it.
fn find_in_python(here: &Environment, python: &Path, all: &mut Vec<FoundLibrary>, findings: &mut Findings) {
    let by = format!("beside {}", python.display());
    if fs::read(python).is_ok_and(|text| text.starts_with(b"#!")) {
        let text = format!("{} is a script (pyenv's?), so it is unknown which Python it starts", python.display());
        findings.note("nccl", text, "name the environment: nccl-otf2 doctor DIR");
        return;
    }
    let real = python.canonicalize().unwrap_or_else(|_| python.to_owned());
    for prefix in [python, &real].into_iter().filter_map(|python| python.parent()?.parent()) {
        in_prefix(prefix, &by, all, findings);
        // A virtual environment only sees its interpreter's packages if `pyvenv.cfg` says so.
        let settings = fs::read_to_string(prefix.join("pyvenv.cfg"));
        if settings.is_ok_and(|settings| !settings.contains("include-system-site-packages = true")) {
            return;
        }
    }
    if let Some(home) = here.variable("HOME") {
        in_prefix(&Path::new(home).join(".local"), &by, all, findings);
    }
}

/// Looks in a directory of libraries, an installation of NCCL or Conda, or a Python environment.
fn in_prefix(prefix: &Path, by: &str, all: &mut Vec<FoundLibrary>, findings: &mut Findings) {
    for folder in ["", "lib", "lib64"] {
        for name in NAMES {
            add(&prefix.join(folder).join(name), by, all);
        }
    }
    for packages in python_packages(prefix) {
        add(&packages.join("nvidia/nccl/lib").join(NAMES[0]), &format!("{by}: NVIDIA's package"), all);
        let torch = packages.join("torch/lib/libtorch_cuda.so");
        let Ok(library) = Library::read(&torch) else {
            continue;
        };
        if library.needed.iter().any(|name| name == NAMES[0]) {
            let text = format!("PyTorch in {} uses an NCCL library: none is linked in", packages.display());
            findings.ok("nccl", text);
        } else {
            add(&torch, &format!("{by}: linked into PyTorch, which uses no other NCCL"), all);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Level {
    Ok,
    Note,
    /// Something may be missing, slow or wrong.
    Warning,
    /// Nothing is recorded, or not what was requested.
    Problem,
}

impl Level {
    const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Finding {
    pub(crate) level: Level,
    /// What was looked at.
    pub(crate) topic: &'static str,
    pub(crate) text: String,
    /// What to do; null for nothing.
    pub(crate) advice: Option<String>,
}

/// All findings; equal sentences appear once.
#[derive(Debug, Default)]
pub(crate) struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, level: Level, topic: &'static str, text: impl Into<String>, advice: &str) {
        let advice = Some(advice.to_owned()).filter(|advice| !advice.is_empty());
        let finding = Finding { level, topic, text: text.into(), advice };
        if !self.0.contains(&finding) {
            self.0.push(finding);
        }
    }

    pub(crate) fn ok(&mut self, topic: &'static str, text: impl Into<String>) {
        self.add(Level::Ok, topic, text, "");
    }

    pub(crate) fn note(&mut self, topic: &'static str, text: impl Into<String>, advice: &str) {
        self.add(Level::Note, topic, text, advice);
    }

    pub(crate) fn warning(&mut self, topic: &'static str, text: impl Into<String>, advice: &str) {
        self.add(Level::Warning, topic, text, advice);
    }

    pub(crate) fn problem(&mut self, topic: &'static str, text: impl Into<String>, advice: &str) {
        self.add(Level::Problem, topic, text, advice);
    }

    /// Builds the report: worst findings first, otherwise in the order in which they were found.
    pub(crate) fn report(mut self, nccl: Vec<NcclRow>, ready: String) -> Report {
        nccl_events::sort::sort_by_key(&mut self.0, |finding| std::cmp::Reverse(finding.level));
        let count = |level: Level| self.0.iter().filter(|finding| finding.level == level).count();
        let worst = self.0.first().map_or(Level::Ok, |finding| finding.level);
        let text = match self.0.first() {
            Some(first) if worst >= Level::Warning => {
                let more = count(worst) - 1;
                let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
                format!("{}: {}{more}", worst.name().to_uppercase(), first.text)
            }
            _ => format!("READY: {ready}"),
        };
        Report { format: 1, level: worst, text, nccl, findings: self.0 }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct NcclRow {
    pub(crate) path: String,
    pub(crate) found_by: String,
    pub(crate) is_rccl: bool,
    pub(crate) release: String,
    /// Null if unknown.
    pub(crate) cuda: Option<String>,
    /// The version of the profiler table that it would call; 0 for none.
    pub(crate) table: u8,
    /// The names under which it would look for a profiler plugin, in this order.
    pub(crate) plugin_names: Vec<String>,
    /// The file that it would load; null for none.
    pub(crate) plugin: Option<String>,
    /// `nccl-profiler-otf2`, or another profiler's name; null for none.
    pub(crate) profiler: Option<&'static str>,
    /// What this release does not report.
    pub(crate) unreported: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Report {
    pub(crate) format: u32,
    /// The worst of the findings; `problem`: exit code 1.
    pub(crate) level: Level,
    /// The first line.
    pub(crate) text: String,
    /// Each library that was found.
    pub(crate) nccl: Vec<NcclRow>,
    /// The worst first.
    pub(crate) findings: Vec<Finding>,
}

impl Report {
    pub(crate) fn text(&self, all: bool) -> Text {
        let mut text = Text::default();
        text.line(&self.text);
        text.line("");
        for Finding { level, topic, text: sentence, advice } in &self.findings {
            text.line(format_args!("{:<8} {topic}: {sentence}", level.name()));
            if let Some(advice) = advice {
                text.line(format_args!("         → {advice}"));
            }
        }
        let mut shown: Vec<&str> = Vec::new();
        for row in &self.nccl {
            if row.unreported.is_empty() || shown.contains(&row.release.as_str()) {
                continue;
            }
            shown.push(&row.release);
            let n = row.unreported.len();
            if !all {
                text.paragraph(format_args!("NCCL {} does not report {n} things to any profiler (--all)", row.release));
                continue;
            }
            text.paragraph(format_args!("NCCL {} does not report:", row.release));
            for spot in &row.unreported {
                text.line(format_args!("  {spot}"));
            }
        }
        text
    }
}

/// The environment that a job started here would have.
pub(crate) struct Environment {
    pub(crate) variables: Variables,
    pub(crate) config: Config,
    pub(crate) job: JobEnvironment,
    pub(crate) host: String,
    pub(crate) loader: Loader,
    pub(crate) plugin: Result<PathBuf>,
}

impl Environment {
    pub(crate) fn look() -> Self {
        let variables = Variables::from_environment();
        Self {
            config: Config::from_variables(variables.pairs().into_iter()),
            variables,
            job: JobEnvironment::read(),
            host: uname().nodename().to_string_lossy().into_owned(),
            loader: Loader::from_environment(),
            plugin: plugin::find(None),
        }
    }

    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(|setting| setting.value.as_str())
    }

    /// Number of recording processes of the job on this host, if the launcher tells; else 1.
    pub(crate) fn processes(&self) -> u64 {
        self.job.local_size.map_or(1, u64::from).max(1)
    }
}

pub(crate) fn settings(here: &Environment, findings: &mut Findings) {
    for remark in &here.config.remarks {
        findings.problem("settings", remark.clone(), "docs/REFERENCE.md §1 lists all variables and their values");
    }
    if !here.config.enabled {
        findings.warning("settings", "NCCL_OTF2_MODE=off: nothing is recorded", "unset it to record");
    }
    let job = &here.job;
    let number = |number: Option<u32>| number.map_or_else(|| "?".to_owned(), |number| number.to_string());
    if let Some(launcher) = &job.launcher {
        findings.ok("launcher", format!("{launcher}: rank {} of {}", number(job.rank), number(job.size)));
    }
    if job.job.is_none() && here.variable("NCCL_OTF2_DIR").is_none() {
        let text = "the environment has no job id, and NCCL_OTF2_DIR is not set: each process would name a directory \
            after its own start time";
        findings.note("launcher", text, "name one for all processes: set NCCL_OTF2_DIR, or use nccl-otf2 run -o DIR");
    }
}
