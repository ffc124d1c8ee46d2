//! `nccl-otf2 doctor`: predicts what a recording would be like here. Nothing is loaded or run; libraries are read.

mod environment;
mod find;
mod gpu;
mod nccl;
mod report;
mod slot;
mod storage;
mod system;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::exit::Exit;
use crate::print;
use environment::Environment;
pub(crate) use report::Report;
use report::{Findings, Level, NcclRow};

const EXAMPLES: &str = "\
Run it where the job will run, with the job's modules, environment and variables: what it reads are NCCL's library, \
the loader's paths, the variables (NCCL's files /etc/nccl.conf and ~/.nccl.conf or NCCL_CONF_FILE too) and the limits \
of this place.

  nccl-otf2 doctor                              what is found by the loader and the Python on PATH
  srun -n1 nccl-otf2 doctor                     on a node of the job
  nccl-otf2 doctor /opt/venv                    a Python environment
  nccl-otf2 doctor ./all_reduce_perf            a program, by the NCCL that it needs or has linked in
  NCCL_OTF2_EVENTS=full nccl-otf2 doctor        what that costs or risks with the release that is found
  nccl-otf2 doctor --json | jq -r '.findings[] | select(.level == \"problem\") | .text'

Each line is a finding: ok, note (to be known), warning (something may be missing, slow or wrong) or problem (nothing is \
recorded, or not what was asked for), one sentence, and what to do. The first line is the worst. No library is loaded \
and no program is run: of NCCL the release and the profiler tables are read from the file. One file of 1 MiB is written \
to the output directory, and removed.

Not seen: what a job script sets later, quotas, and libraries that a program finds by paths of its own.

Exit codes: 0 no problem, 1 a problem, 2 wrong usage, or a named file that cannot be read. docs/REFERENCE.md has the \
fields of --json.";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Request {
    /// NCCL's library, a program that uses NCCL, or a directory of either, such as a Python environment. Without: what
    /// the loader and the Python on PATH have
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// Show what each release of NCCL does not report
    #[arg(long)]
    all: bool,

    /// Print the report as JSON, as `docs/REFERENCE.md` §9 describes
    #[arg(long)]
    json: bool,
}

pub(crate) fn doctor(request: &Request) -> Result<Exit> {
    let report = look(request)?;
    if request.json {
        print::json(&report)?;
    } else {
        print::text(&report.text(request.all))?;
    }
    Ok(if report.level == Level::Problem { Exit::Problems } else { Exit::Well })
}

fn look(request: &Request) -> Result<Report> {
    let here = Environment::look();
    let mut findings = Findings::default();
    environment::settings(&here, &mut findings);
    slot::installed(&here, &mut findings);
    slot::chained(&here, &mut findings);
    let found = find::find(&here, &request.paths, &mut findings)?;
    let rows: Vec<NcclRow> = found.iter().map(|one| nccl::judge(&here, one, &mut findings)).collect();
    slot::ranges(&here, &mut findings);
    gpu::timing(&here, &found, &mut findings);
    let out = storage::directories(&here, &mut findings);
    system::clock(&mut findings);
    system::limits(&mut findings);
    system::container(&here, &mut findings);
    system::scorep(&here, &mut findings);
    let releases: Vec<&str> = rows.iter().map(|row| row.release.as_str()).collect();
    let events = settings::event_set(here.config.mask);
    let ready = format!("NCCL {} can be recorded ({events} events) into {}", releases.join(" and "), out.display());
    Ok(findings.report(rows, ready))
}
