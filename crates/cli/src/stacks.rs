//! The stacks of a report's suspects, from a debugger of this host.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::output;
use anyhow::{Context as _, Result, bail};
use hang::{Report, SuspectRow};
use journal::host::host_name;

/// The folder of a job's directory with a file for each process.
pub(crate) const FOLDER: &str = "stacks";

/// How many suspects are asked. A deadlock may have a job's ranks as suspects.
const MOST: usize = 4;

/// A debugger stops the process while it reads it.
const LIMIT: Duration = Duration::from_secs(30);
const STEP: Duration = Duration::from_millis(20);

/// What is read of a debugger's answer to find the first frames.
const MOST_READ: u64 = 1 << 20;
const MOST_FRAMES: usize = 3;

/// Debuggers, the first that answers counts: how each prints all stacks of process `PID`, without its user's settings.
const DEBUGGERS: [(&str, &[&str]); 3] = [
    ("py-spy", &["dump", "--native", "--pid", "PID"]),
    ("gdb", &["-nx", "-batch", "-iex", "set auto-load off", "-p", "PID", "-ex", "thread apply all backtrace"]),
    ("eu-stack", &["-p", "PID"]),
];

/// Adds to the evidence where the programs of suspects are, and keeps their stacks in the job's directory.
pub(crate) fn collect(directory: &Path, report: &mut Report) {
    let mut asked: Vec<u32> = Vec::new();
    for suspect in &report.suspects {
        let Some(pid) = process_here(report, suspect).filter(|pid| !asked.contains(pid)) else { continue };
        if asked.len() == MOST {
            output::note(format_args!("stacks: collected only for the first {MOST} suspects"));
            break;
        }
        asked.push(pid);
        match ask(directory, pid) {
            Ok((path, frames)) => {
                let name = suspect.job_rank.map_or_else(|| format!("process {pid}"), |rank| format!("rank {rank}"));
                let frames = frames.join(" < ");
                report.verdict.evidence.push(format!("{name} is in {frames}: stacks in {}", path.display()));
            }
            Err(error) => output::note(format_args!("stacks of process {pid}: {error:#}")),
        }
    }
    if asked.is_empty() && report.verdict.found {
        output::note("stacks: no suspect runs on this host as this user; run `hang --stacks` where one does");
    }
}

/// The suspect's process, if it runs on this host as the user of this tool.
fn process_here(report: &Report, suspect: &SuspectRow) -> Option<u32> {
    let address = suspect.process.as_deref()?;
    let process = report.processes.iter().find(|process| format!("{}:{}", process.host, process.pid) == address)?;
    let runs = matches!(&*process.process_state, "running" | "stopped") && process.host == host_name();
    let owner = fs::metadata(format!("/proc/{}", process.pid)).ok()?.uid();
    (runs && owner == rustix::process::geteuid().as_raw()).then_some(process.pid)
}

/// Writes a process's stacks into a new file. Also returns the innermost frames of its main thread.
fn ask(directory: &Path, pid: u32) -> Result<(PathBuf, Vec<String>)> {
    let folder = directory.join(FOLDER);
    match fs::create_dir(&folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(error).with_context(|| format!("cannot make {}", folder.display()));
        }
        _ => {}
    }
    let now_ns = jiff::Timestamp::now().as_nanosecond();
    let path = folder.join(format!("{}-{pid}-{now_ns}.txt", host_name()));
    let mut why = Vec::new();
    for (debugger, arguments) in DEBUGGERS {
        match answer(debugger, arguments, pid) {
            Ok((mut answer, frames)) => {
                let file = OpenOptions::new().write(true).create_new(true).open(&path);
                let written = answer.rewind().and_then(|()| io::copy(&mut answer, &mut file?));
                return written
                    .map(|_| (path.clone(), frames))
                    .with_context(|| format!("cannot write {}", path.display()));
            }
            Err(error) => why.push(format!("{debugger}: {error:#}")),
        }
    }
    bail!("no debugger gave an answer ({})", why.join("; "))
}

/// What a debugger prints, and the innermost frames in it.
fn answer(debugger: &str, arguments: &[&str], pid: u32) -> Result<(File, Vec<String>)> {
    let pid = pid.to_string();
    let mut command = Command::new(debugger);
    command.args(arguments.iter().map(|argument| if *argument == "PID" { pid.as_str() } else { argument }));
    let mut output = tempfile::tempfile().context("no temporary file")?;
    let stdout = output.try_clone().context("no temporary file")?;
    let child = command.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::null()).spawn();
    let mut child = match child {
        Err(error) if error.kind() == ErrorKind::NotFound => bail!("not found"),
        child => child?,
    };
    let began = Instant::now();
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if began.elapsed() > LIMIT => {
                let _ended = child.kill();
                let _status = child.wait();
                bail!("did not answer within {} s", LIMIT.as_secs());
            }
            None => std::thread::sleep(STEP),
        }
    };
    if !status.success() {
        bail!("{status}");
    }
    output.rewind()?;
    let mut text = Vec::new();
    output.by_ref().take(MOST_READ).read_to_end(&mut text)?;
    let frames = innermost(&String::from_utf8_lossy(&text));
    // gdb succeeds although it cannot attach.
    if frames.is_empty() {
        bail!("it printed no stack");
    }
    Ok((output, frames))
}

/// A frame as it is printed: `#1  0x00007f… in recv () from libc.so.6`, or `recv (train.py:17)` below a thread.
fn frames(section: &str) -> impl Iterator<Item = &str> {
    section.lines().filter_map(|line| {
        let frame = line.trim();
        if let Some(numbered) = frame.strip_prefix('#') {
            let (number, rest) = numbered.split_once(char::is_whitespace)?;
            let rest = rest.trim_start();
            let rest = if rest.starts_with("0x") { rest.split_once(' ')?.1.trim_start() } else { rest };
            let rest = rest.strip_prefix("in ").unwrap_or(rest);
            let name = rest.split(" (").next().unwrap_or(rest);
            return number.parse::<u32>().ok().map(|_| name);
        }
        (line.starts_with(' ') && frame.ends_with(')') && frame.contains(" (")).then_some(frame)
    })
}

/// The innermost frames of the main thread; those of Python alone if there are any.
fn innermost(text: &str) -> Vec<String> {
    let is_header = |line: &str| line.starts_with("Thread ") || line.starts_with("TID ");
    let mut sections: Vec<String> = Vec::new();
    for line in text.lines() {
        if is_header(line) || sections.is_empty() {
            sections.push(String::new());
        }
        if let Some(section) = sections.last_mut() {
            section.push_str(line);
            section.push('\n');
        }
    }
    sections.retain(|section| frames(section).next().is_some());
    let is_main = |section: &&String| {
        let header = section.lines().next().unwrap_or_default();
        header.contains("\"MainThread\"") || header.starts_with("Thread 1 ")
    };
    let Some(section) = sections.iter().find(is_main).or(sections.first()) else { return Vec::new() };
    let python: Vec<&str> = frames(section).filter(|frame| frame.contains(".py:")).take(MOST_FRAMES).collect();
    let all: Vec<&str> = if python.is_empty() { frames(section).take(MOST_FRAMES).collect() } else { python };
    all.into_iter().map(|frame| format!("`{frame}`")).collect()
}

#[cfg(test)]
mod tests {
    use super::innermost;

    /// As py-spy 0.4, gdb 13 and eu-stack 0.188 print them.
    #[test]
    fn the_innermost_frames_of_the_main_thread() {
        let python = "Process 7: python3 train.py\nPython v3.11.2 (/usr/bin/python3.11)\n\n\
            Thread 8 (idle): \"watchdog\"\n    wait (threading.py:320)\n\
            Thread 7 (idle): \"MainThread\"\n    clock_nanosleep (libc.so.6)\n    load_batch (data.py:17)\n    \
            step (train.py:40)\n    <module> (train.py:60)\n";
        assert_eq!(
            innermost(python),
            ["`load_batch (data.py:17)`", "`step (train.py:40)`", "`<module> (train.py:60)`"]
        );
        let gdb = "[New LWP 8]\n\nThread 2 (Thread 0x7f (LWP 8) \"proxy\"):\n#0  0x00007f in poll () from libc.so.6\n\n\
            Thread 1 (Thread 0x7f (LWP 7) \"train\"):\n#0  0x00007f0a in clock_nanosleep () from libc.so.6\n\
            #1  load (path=0x0) at data.c:5\n#2  0x000055 in main ()\n";
        assert_eq!(innermost(gdb), ["`clock_nanosleep`", "`load`", "`main`"]);
        let eu_stack =
            "PID 7 - process\nTID 7:\n#0  0x00007f0a clock_nanosleep\n#1  0x0000558a main\nTID 8:\n#0  0x1 poll\n";
        assert_eq!(innermost(eu_stack), ["`clock_nanosleep`", "`main`"]);
        assert!(innermost("Couldn't attach\n").is_empty());
    }
}
