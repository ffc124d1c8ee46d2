//! `nccl-otf2 run`: runs a command with the plugin in its environment, then completes the archive.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus};

use crate::command_line::Exit;
use crate::run::directory::Directory;
use crate::run::processes::{ExpectedVariables, Forwarding, Interrupted, ProcessWatch, Signals, StrayProcess};
use crate::{output, plugin};
use anyhow::{Context as _, Result, anyhow};
use journal::part::environment::{JOB_VARIABLE, JobEnvironment};
use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

mod directory;
mod processes;
mod settings;

pub(crate) use crate::run::settings::Request;

pub(crate) fn run(request: &Request) -> Result<Exit> {
    let mut job = JobEnvironment::read();
    let plugin = plugin::find(request.plugin.as_deref())?;
    let (program, arguments) = request.command.split_first().ok_or_else(|| anyhow!("no command to run"))?;
    let is_first = job.rank.unwrap_or(0) == 0;
    let mut variables = request.settings.variables()?;
    if is_first {
        settings::note_bad_variables(&variables);
    }
    variables.extend(settings::plugin_variables(&plugin, request, is_first)?);
    let mut directory = Directory::choose(request.out.as_deref(), program, &mut job)?;
    directory.prepare(program, request, &mut job)?;
    variables.push(("NCCL_OTF2_DIR", directory.as_variable()?.into()));
    if let Some(id) = job.ids.get(JOB_VARIABLE) {
        variables.push((JOB_VARIABLE, id.into()));
    }

    variables.extend(settings::topology_variables(directory.path(), request, &job)?);

    let mut command = Command::new(program);
    command.args(arguments).envs(variables);
    let watch = ExpectedVariables::new(&command, directory.path());
    let (status, interrupted, strayed) = match supervise(&mut command, watch) {
        Ok(ended) => ended,
        Err(error) => {
            directory.release_if_unused();
            let code = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
            let is_script = code == Some(Errno::NOEXEC.raw_os_error());
            let advice = if is_script { " (a script without `#!`? put `sh` before it)" } else { "" };
            return Err(error.context(format!("cannot run {}{advice}", program.display())));
        }
    };
    directory::wait(directory.path(), request, &job, interrupted);
    settings::tidy(directory.path());
    // Problems with the archive never change the command's exit status.
    if let Err(error) = directory::complete(&directory, request, &job, &plugin, strayed.as_ref(), status) {
        output::error(&error);
    }
    Ok(Exit::Command(exit_code(status)))
}

/// Runs the command to its end with this process's stdin, stdout and stderr, whatever signals arrive.
fn supervise(
    command: &mut Command,
    watch: ExpectedVariables,
) -> Result<(ExitStatus, Option<Interrupted>, Option<StrayProcess>)> {
    let signals = Signals::catch().context("cannot catch signals")?;
    let mut child = command.spawn()?;
    let process = Pid::from_child(&child);
    let watching = watch.begin(process);
    let forwarding = signals.forward_to(process);
    if let Err(error) = &forwarding {
        output::note(format_args!("signals are not passed on: {error}"));
    }
    // Until the exit status is collected, the process id is not reused, so a late signal cannot hit another process.
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while let Err(Errno::INTR) = waitid(WaitId::Pid(process), options) {}
    let interrupted = forwarding.ok().map(Forwarding::end);
    Ok((child.wait()?, interrupted, watching.and_then(ProcessWatch::end)))
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = match (status.code(), status.signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => 255,
    };
    u8::try_from(code).unwrap_or(u8::MAX)
}
