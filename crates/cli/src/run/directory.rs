//! Chooses the job's directory, checks whether it may be used, and completes the archive there after the command and
//! its last processes have ended. All messages go to stderr: stdout belongs to the command.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant, SystemTime};
use std::{env, fs, thread};

use crate::archives::PAGE;
use crate::finalize::{Ending, Summary, analyse, judged};
use crate::output::{Bar, Text};
use crate::run::processes::{Interrupted, StrayProcess};
use crate::run::settings::Request;
use crate::{archives, output, stacks};
use analysis::Filter;
use analysis::results::Finding;
use analysis::units::plural;
use anyhow::{Context as _, Result, anyhow, bail, ensure};
use archive::{
    ANCHOR, FinalizeOptions, PartState, WriteOptions, finalize, is_last_process, part_directories, unify, write_part,
};
use journal::host;
use journal::part::environment::JobEnvironment;
use journal::part::job::{CLAIM, JobDirectory, OTHER_JOBS};
use journal::part::{DUMPS, JOURNAL, PARTS, is_done, job, read_process};
use nccl_events::{Progress, visible};
use regular_files::refuse_foreign;
use rustix::system::uname;
use settings::{PathValues, shell_word};

/// The archive's directory as an absolute path, the same for all processes of the job.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    made: bool,
    /// The directory of parts before the command ran; `None` if other processes of the job created it, too.
    parts: Option<Stamps>,
}

/// Whether the recording was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordingRemoval {
    No,
    /// The directory of parts is gone or was replaced.
    Removed,
    /// A part was there, but none is left. A plugin without disk space for its journal removes its own part.
    Emptied,
}

/// When a directory was created, if known, and when an entry was last added or removed.
type Stamps = (Option<SystemTime>, Option<SystemTime>);

fn stamps(directory: &Path) -> Option<Stamps> {
    let data = directory.metadata().ok()?;
    Some((data.created().ok(), data.modified().ok()))
}

impl Directory {
    /// The directory the user named, or one named after the command. A run without a job id gets one.
    pub(crate) fn choose(named: Option<&Path>, program: &OsStr, job: &mut JobEnvironment) -> Result<Self> {
        let by_default = default_name(program, job);
        if job.job.is_none() && !is_one_of_many(job) {
            job.belong_to(&format!("{}-{}", output::now(), std::process::id()));
        }
        let path = match (named, env::var("NCCL_OTF2_DIR")) {
            (Some(named), _) => match named.to_str() {
                Some(template) => expand("--out", template, job)?.into(),
                None => named.to_owned(),
            },
            (None, Ok(template)) if !template.is_empty() => expand("NCCL_OTF2_DIR", &template, job)?.into(),
            _ => by_default?.into(),
        };
        let path = std::path::absolute(&path)
            .with_context(|| format!("{}: the current directory cannot be used", path.display()))?;
        Ok(Self { path, made: false, parts: None })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The path for the plugin's variable, in which the plugin expands `%`.
    pub(crate) fn as_variable(&self) -> Result<String> {
        let path = self.path.to_str().ok_or_else(|| anyhow!("{}: the name is not UTF-8", self.path.display()))?;
        Ok(path.replace('%', "%%"))
    }

    /// Creates the directory early, so that a bad name is reported before the job runs. With `--append` the run joins
    /// the job that recorded there; else it gets a directory of its own inside.
    pub(crate) fn prepare(&mut self, program: &OsStr, request: &Request, job: &mut JobEnvironment) -> Result<()> {
        ensure!(!self.path.is_file(), "{} is a file: --out must name a directory", self.path.display());
        self.as_variable()?;
        refuse_foreign(&self.path, "--out").map_err(|reason| anyhow!(reason))?;
        self.clear(program, request, job)?;
        let is_set = request.out.is_none() && env::var("NCCL_OTF2_DIR").is_ok_and(|template| !template.is_empty());
        let origin = if is_set { "from NCCL_OTF2_DIR; " } else { "" };
        let failed = || format!("cannot create {} ({origin}--out names another)", self.path.display());
        if let (true, Some(claim)) = (request.append, job::owner(&self.path).with_context(failed)?) {
            job.belong_to(&claim.name);
        }
        // No other user may read the recording, or put files there.
        let is_new = !self.path.exists();
        host::directories(&self.path).with_context(failed)?;
        let JobDirectory { path, other, .. } = job::directory(&self.path, job, 0).with_context(failed)?;
        self.made = is_new || !path.join(PARTS).exists() && path != self.path;
        if let Some(other) = other {
            output::note(format_args!(
                "{} holds recordings of another run ({other}), so this run records into {} (--append adds it to the \
                other run, -o 'trace-%j' names a directory for each job)",
                self.path.display(),
                path.display()
            ));
            self.path = path;
        }
        if !is_one_of_many(job) {
            let parts = self.path.join(PARTS);
            host::directories(&parts).with_context(|| format!("cannot make {}", parts.display()))?;
            self.parts = stamps(&parts);
        }
        Ok(())
    }

    /// Whether the recording was removed while the command ran. `is_empty`: whether no part is there.
    pub(crate) fn was_cleared(&self, is_empty: bool) -> RecordingRemoval {
        let now = stamps(&self.path.join(PARTS));
        match (self.parts, now) {
            (Some(_), None) => RecordingRemoval::Removed,
            (Some((made, _)), Some(now)) if made != now.0 => RecordingRemoval::Removed,
            (Some((_, changed)), Some(now)) if is_empty && changed != now.1 => RecordingRemoval::Emptied,
            (None, Some(_)) if is_empty => RecordingRemoval::Emptied,
            _ => RecordingRemoval::No,
        }
    }

    /// Whether no part was added while the command ran; unknown, hence false, among the processes of a job.
    pub(crate) fn is_unchanged(&self) -> bool {
        self.parts.is_some() && self.parts == stamps(&self.path.join(PARTS))
    }

    fn clear(&self, program: &OsStr, request: &Request, job: &JobEnvironment) -> Result<()> {
        let path = self.path.display();
        if request.force {
            ensure!(
                !is_one_of_many(job),
                "--force cannot be used in several processes of a job, which would remove each other's parts: remove \
                {path} before the job starts"
            );
            ensure!(is_found(program), "cannot run {}: no such program; nothing was removed", program.display());
            return self.remove_archive();
        }
        ensure!(
            !request.append || !self.path.join(ANCHOR).exists() || self.path.join(PARTS).exists(),
            "{path} holds an archive without the parts that it was made from ({PARTS}/), so nothing can be added; \
            name another directory with --out, and combine the two with `nccl-otf2 merge`"
        );
        // It may be the only archive of a long job.
        ensure!(
            request.append || !self.path.join(ANCHOR).exists(),
            "{path} already holds an archive: name another directory with --out, replace the archive with --force, or \
            add to it with --append"
        );
        Ok(())
    }

    /// Removes the archive's files, its page and nothing else; the anchor first, because it makes the rest an archive.
    fn remove_archive(&self) -> Result<()> {
        let directory = self.path.display();
        let names = [ANCHOR, "traces.def", "traces", PARTS, DUMPS, CLAIM, hang::FILE, PAGE, stacks::FOLDER];
        if let Some(file) = archive::foreign_file(&self.path) {
            bail!(
                "--force: {} does not belong to an archive: move it away, or name another directory with --out",
                file.display()
            );
        }
        if !self.path.join(ANCHOR).exists() && job::owner(&self.path)?.is_none() {
            match names.iter().find(|name| self.path.join(name).exists()) {
                Some(name) => {
                    bail!("--force: {directory} contains {name}, but no recording: name another directory with --out")
                }
                None => return Ok(()),
            }
        }
        let mut parts = part_directories(&self.path).unwrap_or_default().into_iter();
        if let Some(part) = parts.find(|part| read_process(part).0.is_recording()) {
            bail!(
                "--force: a process is recording into {}: end its job, or name another directory with --out",
                part.display()
            );
        }
        for name in names {
            let path = self.path.join(name);
            let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            match removed {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(error).with_context(|| format!("--force: cannot remove {}", path.display()));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Removes the claim if nothing was recorded, and the directory if this process created it and it is empty.
    pub(crate) fn release_if_unused(&self) {
        let parts = self.path.join(PARTS);
        let _has_dumps = fs::remove_dir(self.path.join(DUMPS));
        if self.parts.is_some() {
            // Fails unless the directory is empty.
            let _not_empty = fs::remove_dir(&parts);
        }
        if parts.exists() {
            return;
        }
        // Nothing was recorded: the directory belongs to no job.
        let _not_there = fs::remove_file(self.path.join(CLAIM));
        if !self.made {
            return;
        }
        // `remove_dir` only removes empty directories; usually the directory is not empty.
        let _not_empty = fs::remove_dir(&self.path);
        if let Some(around) = self.path.parent().filter(|around| around.ends_with(OTHER_JOBS)) {
            let _not_empty = fs::remove_dir(around);
        }
    }
}

/// Whether the system finds a program, as far as that can be told without running it.
fn is_found(program: &OsStr) -> bool {
    let path = Path::new(program);
    if path.components().count() > 1 {
        return path.exists();
    }
    env::var_os("PATH").is_none_or(|folders| env::split_paths(&folders).any(|folder| folder.join(path).is_file()))
}

/// Whether a launcher started this tool once for each process of the job.
pub(crate) fn is_one_of_many(job: &JobEnvironment) -> bool {
    job.rank.is_some() && job.size != Some(1)
}

/// A default name that is the same for all processes. The plugin's own default contains the time, which differs
/// between processes.
fn default_name(program: &OsStr, job: &JobEnvironment) -> Result<String> {
    let program = Path::new(program).file_name().unwrap_or(program).to_string_lossy();
    let distinction = match (&job.job, job.rank) {
        (Some(job), _) => job.replace('/', "_"),
        (None, Some(rank)) if is_one_of_many(job) => bail!(
            "this is rank {rank} of a job without a job id: \
             name a directory for all its processes with --out"
        ),
        _ => output::now(),
    };
    Ok(format!("nccl-otf2-{program}-{distinction}"))
}

fn expand(source: &str, template: &str, job: &JobEnvironment) -> Result<String> {
    if template.replace("%%", "").contains("%p") {
        bail!("{source}={template} is a different directory in every process (%p): name one for all with --out");
    }
    let host = uname().nodename().to_string_lossy().into_owned();
    Ok(settings::expand(template, &PathValues { host, process_id: 0, job: job.job.clone(), rank: job.rank }))
}

/// Completes the archive and prints how to open it, or why there is none.
pub(super) fn complete(
    directory: &Directory,
    request: &Request,
    job: &JobEnvironment,
    plugin: &Path,
    strayed: Option<&StrayProcess>,
    ended: ExitStatus,
) -> Result<()> {
    let out = directory.path();
    let mut hang = None;
    let parts = if out.join(PARTS).is_dir() { part_directories(out)? } else { Vec::new() };
    let cleared = directory.was_cleared(parts.is_empty());
    if cleared == RecordingRemoval::Removed && !parts.is_empty() {
        output::note(format_args!(
            "{} was removed or moved while the command ran: everything recorded before that is lost and missing below",
            out.join(PARTS).display()
        ));
    }
    if parts.is_empty() {
        match cleared {
            RecordingRemoval::Removed => {
                output::note(format_args!(
                    "nothing is left of the recording in {}: it was removed or moved while the command ran \
                    (`nccl-otf2 finalize DIR` makes an archive in its new place)",
                    out.display()
                ));
                return Ok(());
            }
            RecordingRemoval::Emptied => {
                output::note(format_args!(
                    "no recording in {}: either no process could write one (then the plugin gave the reason on \
                    stderr), or it was removed while the command ran",
                    out.display()
                ));
                directory.release_if_unused();
                return Ok(());
            }
            RecordingRemoval::No => directory.release_if_unused(),
        }
        // Every rank of a large job would print this; one is enough.
        if request.settings.is_off() {
            output::note(format_args!("nothing was recorded into {}: NCCL_OTF2_MODE=off is set", out.display()));
        } else if job.rank.unwrap_or(0) == 0 {
            if let Some(strayed) = strayed {
                output::notes(&why_strayed(strayed, out));
            }
            if strayed.is_none_or(|strayed| !strayed.used_nccl()) {
                output::notes(&why_nothing(plugin, out, ended));
            }
        }
        return Ok(());
    }
    if request.append && directory.is_unchanged() {
        output::notes(&why_nothing(plugin, out, ended));
        return Ok(());
    }
    if !request.no_finalize {
        let keep_journal = request.settings.keep_journal();
        let bar = Bar::new();
        if is_one_of_many(job) {
            // If each process has its own tool, the last one makes the archive and judges it.
            if complete_own(out, &parts, job, keep_journal, &bar)? {
                ((), hang) = judged(out, out, false, || Ok(()))?;
            }
        } else {
            ((), hang) = judged(out, out, true, || complete_all(out, keep_journal, &bar))?;
        }
    }
    let is_named = hang.as_ref().is_some_and(|ending| ending.names_mismatch);
    if let Some(Ending { text, .. }) = hang {
        let mut lines = Text::default();
        lines.line(text);
        lines.line(format_args!("  who waits for whom:        nccl-otf2 hang {}", shell_word(out)));
        output::notes(&lines);
    }
    print_result(out, job, is_named);
    Ok(())
}

/// Completes the archive if the command was the whole job: no other tool writes the remaining parts.
fn complete_all(out: &Path, keep_journal: bool, progress: &dyn Progress) -> Result<()> {
    let options = FinalizeOptions { keep_journal, ..FinalizeOptions::default() };
    let summary =
        finalize(out, &options, progress).with_context(|| format!("cannot make an archive in {}", out.display()))?;
    for part in &summary.parts {
        let name = &part.name;
        match &part.state {
            PartState::Live => {
                output::note(format_args!("{name} still runs: `nccl-otf2 finalize {}` adds it later", shell_word(out)));
            }
            PartState::Failed(reason) => output::note(format_args!("{name} is missing: {reason}")),
            _ => {}
        }
    }
    Ok(())
}

/// Writes only the parts that the command left: it was one process of a job that may still run on other hosts. The tool
/// that writes the last part makes the archive. Returns whether this tool did.
fn complete_own(
    out: &Path,
    parts: &[PathBuf],
    job: &JobEnvironment,
    keep_journal: bool,
    progress: &dyn Progress,
) -> Result<bool> {
    let options = WriteOptions { deadline: None, keep_journal, ..WriteOptions::default() };
    let mut written = false;
    for directory in parts.iter().filter(|directory| is_left_by(directory, job)) {
        write_part(directory, &options, progress).with_context(|| format!("cannot write {}", directory.display()))?;
        written = true;
    }
    // If the command wrote its part itself, it has also checked whether it was the last process.
    let is_last = written && is_last_process(out)?;
    if is_last {
        unify(out, progress)?;
    }
    Ok(is_last)
}

/// Whether the command that just ended left this part unwritten: no other rank's tool writes the same part now.
fn is_left_by(directory: &Path, job: &JobEnvironment) -> bool {
    let (process, _) = read_process(directory);
    !is_done(directory)
        && directory.join(JOURNAL).exists()
        && process.boot_id == host::boot_id()
        && process.environment.launcher == job.launcher
        && process.environment.rank == job.rank
        && !process.is_recording()
}

/// `is_named`: whether a mismatch has been reported.
fn print_result(out: &Path, job: &JobEnvironment, is_named: bool) {
    let (directory, word) = (out.display(), shell_word(out));
    match Summary::read(out) {
        Ok(_) if is_one_of_many(job) && !claim_summary(out) => {}
        Ok(summary) => {
            let first_mismatch = summary.first_mismatch.clone().filter(|_| !is_named);
            output::notes(&closing_lines(&Summary { first_mismatch, ..summary }, out));
        }
        // The last process of the job prints the summary.
        Err(_) if is_one_of_many(job) && !out.join(ANCHOR).exists() => {
            if job.rank == Some(0) {
                output::note(format_args!(
                    "the last process of the job makes the archive in {directory}; \
                     if one was killed, `nccl-otf2 finalize {word}` does"
                ));
            }
        }
        Err(error) => output::note(output::reasons(&error)),
    }
}

fn closing_lines(summary: &Summary, out: &Path) -> Text {
    let (anchor, directory) = (shell_word(Path::new(&summary.anchor)), shell_word(out));
    let mut text = Text::default();
    summary.print(&mut text);
    if let Some(line) = verdict_line(summary, out) {
        text.line(format_args!("  {line}"));
    }
    text.line(format_args!("  what is slow, who is late: nccl-otf2 stats {directory}"));
    text.line(format_args!("  the same as a web page:    nccl-otf2 report {directory}"));
    text.line(format_args!("  all events in time:        vampir {anchor}"));
    text.line(format_args!("  what was recorded:         nccl-otf2 info {directory}"));
    text
}

/// The verdict of `stats`. `None` for an archive that takes longer to read: the next line has the command.
fn verdict_line(summary: &Summary, out: &Path) -> Option<String> {
    /// About two seconds.
    const MOST_EVENTS: u64 = 2_000_000;
    if summary.events > MOST_EVENTS {
        return None;
    }
    let trace = archives::open_with_kinds(out).ok()?;
    let verdict = analyse(&trace, &Filter::default(), &Bar::new()).ok()?.report.verdict;
    // How a job hung is said before.
    (verdict.finding != Finding::Unfinished).then_some(verdict.line)
}

/// Whether this is the first rank's tool to report on the current archive, claimed by creating a file named after it.
fn claim_summary(out: &Path) -> bool {
    let written = out.join(ANCHOR).metadata().and_then(|data| data.modified());
    // If the time is unknown or the file cannot be created, report twice rather than never.
    let Some(written) = written.ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok()) else {
        return true;
    };
    let name = format!(".summary-printed-{}", written.as_nanos());
    !matches!(host::new_file(&out.join(name)), Err(error) if error.kind() == ErrorKind::AlreadyExists)
}

/// Explains that nothing was recorded because a process did not have the variables or the plugin that were set for it.
fn why_strayed(strayed: &StrayProcess, directory: &Path) -> Text {
    let mut text = Text::default();
    text.line(format_args!("nothing was recorded into {}: {strayed}.", directory.display()));
    text.line(
        "  An entrypoint, a launcher or the program changed what `nccl-otf2 run` had set. Remove that change, or let \
        it",
    );
    text.line("  start `nccl-otf2 run -- COMMAND` itself, which chains the other plugin behind this project's.");
    text
}

/// Why a run may have recorded nothing, the likely reasons first.
fn why_nothing(plugin: &Path, directory: &Path, ended: ExitStatus) -> Text {
    let failed = match ended.code() {
        Some(0) => String::new(),
        Some(code) => format!("\n  - The command failed with exit status {code}."),
        None => format!("\n  - The command failed: {ended}."),
    };
    let reasons = format!(
        "nothing was recorded into {directory}. `nccl-otf2 doctor`, run in place of the command, finds most of the usual
reasons:{failed}
  - The command did not use NCCL, or made no communicator.
  - NCCL did not load the plugin. Run it again with NCCL_DEBUG=INFO and look for lines with `PROFILER`:
    they must name {plugin}, and after them (but in 2.23) comes `Loaded OTF2`.
    NCCL before 2.23 has no profiler plugins, also when it is linked into the program or the framework
    statically (then the installed NCCL's version says nothing). NCCL 2.27.3 finds none by its path:
    use --by-name.
  - The program replaced its environment: ssh, sudo and some launchers do not pass variables on.
    NCCL_PROFILER_PLUGIN and NCCL_OTF2_DIR must reach the processes that call NCCL.
  - The command starts a container that lacks {plugin} or the directory:
    mount both in it under the same names, or let the container start `nccl-otf2 run -- COMMAND`.
  - The plugin could not write: then it said so on stderr.
  - All communicators had one rank only: NCCL reports next to nothing about those.",
        directory = visible(&directory.to_string_lossy()),
        plugin = visible(&plugin.to_string_lossy()),
    );
    let mut text = Text::default();
    reasons.lines().for_each(|line| text.line(line));
    text
}

/// How long to wait: processes that end because the command has ended do so soon.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait before printing a note.
const QUIET: Duration = Duration::from_millis(500);
const STEP: Duration = Duration::from_millis(50);

/// Waits until no process of the run records on this host, but at most [`PATIENCE`], or until a signal arrives.
pub(super) fn wait(out: &Path, request: &Request, job: &JobEnvironment, interrupted: Option<Interrupted>) {
    let began = Instant::now();
    let mut is_noted = false;
    let is_interrupted = || interrupted.as_ref().is_some_and(Interrupted::is_signalled);
    while !request.no_finalize && !is_interrupted() && began.elapsed() < PATIENCE {
        let number = recording(out, job);
        if number == 0 {
            return;
        }
        if !is_noted && began.elapsed() > QUIET {
            is_noted = true;
            output::note(format_args!(
                "the command has ended; waiting at most {} s for {} (Ctrl-C stops waiting)",
                PATIENCE.as_secs(),
                plural(
                    number,
                    "process that it left behind and that is still recording",
                    "processes that it left behind and that are still recording"
                )
            ));
        }
        thread::sleep(STEP);
    }
}

/// The number of recording processes of the run on this host; for one rank of a job, only its own.
fn recording(out: &Path, job: &JobEnvironment) -> u64 {
    let parts = part_directories(out).unwrap_or_default();
    let processes = parts.iter().map(|part| read_process(part).0);
    let is_ours = |rank| !is_one_of_many(job) || rank == job.rank;
    processes.filter(|process| is_ours(process.environment.rank) && process.is_recording()).count() as u64
}
