//! Compiles and runs the job of a cell.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use super::cells::{self, Cell, Link, Special, Threads};
use crate::cache;
use crate::cargo::{self, Tools};
use crate::process::{self, Captured};

/// Time limit of a run in seconds; one of 30 000 rounds takes half a minute on two idle cores.
const LIMIT: &str = "500";
/// Score-P needs 2 MiB per location: two or three for threads, one for operations, and some for definitions.
const LITTLE_MEMORY: &str = "8M";
pub(super) const PROCESSES: usize = 2;
/// Delay of a late rank, in microseconds.
const LATE_US: &str = "10000";

pub(super) struct Bench {
    pub(super) tools: Tools,
    /// The single NCCL library.
    libraries: Vec<PathBuf>,
    programs: PathBuf,
}

pub(super) struct Run {
    pub(super) cell: Cell,
    pub(super) folder: PathBuf,
    pub(super) output: String,
}

impl Run {
    pub(super) fn archive(&self) -> PathBuf {
        match self.cell.special {
            Special::Substrate => self.folder.join("experiment-0/nccl-otf2"),
            _ => self.folder.join("out"),
        }
    }

    /// Score-P's output: one directory with MPI, one per process without.
    pub(super) fn experiments(&self) -> Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.folder).with_context(|| format!("read {}", self.folder.display()))? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with("experiment-") || name.starts_with("scorep_") {
                found.push(path);
            }
        }
        found.sort();
        Ok(found)
    }
}

impl Bench {
    pub(super) fn set_up(tools: Tools, libraries: Vec<PathBuf>) -> Result<Self> {
        let programs = cargo::target()?.join("scorep/programs");
        cache::create(&programs)?;
        Ok(Self { tools, libraries, programs })
    }

    pub(super) fn run(&self, cell: Cell, folder: PathBuf) -> Result<Run> {
        cache::remove(&folder)?;
        cache::create(&folder)?;
        let program = self.program(cell)?;
        let preload = self.preload(cell, &program, &folder)?;
        let output = if cell.has_mpi {
            vec![self.with_mpi(cell, &program, &preload, &folder)?]
        } else {
            self.without_mpi(cell, &program, &preload, &folder)?
        };
        let text: String = output.iter().map(|output| format!("{}{}", output.out, output.err)).collect();
        cache::write(&folder.join("output"), &text)?;
        for output in output {
            match output.status.code() {
                Some(0) => {}
                Some(124) => bail!("the run hung and was killed"),
                _ => bail!("the run ended with {}: {}", output.status, last_complaint(&text)),
            }
        }
        Ok(Run { cell, folder, output: text })
    }

    fn with_mpi(&self, cell: Cell, program: &Path, preload: &str, folder: &Path) -> Result<Captured> {
        let mut command = Command::new("timeout");
        command.arg(LIMIT);
        if cell.special == Special::Scan {
            command.args(["scan", "-t"]);
        }
        // Not with mpirun's -x, whose argument scan takes for the program.
        command.env("OMPI_MCA_mca_base_env_list", format!("LD_PRELOAD={preload}"));
        command.args(["mpirun", "-np", &PROCESSES.to_string()]);
        command.arg(program).args(&self.libraries).arg(cell.rounds().to_string());
        self.settings(&mut command, cell, folder, 0)?;
        process::capture(&mut command)
    }

    fn without_mpi(&self, cell: Cell, program: &Path, preload: &str, folder: &Path) -> Result<Vec<Captured>> {
        let run = |number: usize| {
            let mut command = Command::new("timeout");
            command.args([LIMIT, "env", &format!("LD_PRELOAD={preload}")]);
            command.arg(program).args(&self.libraries).arg(cell.rounds().to_string());
            command.args(["id", &number.to_string(), &PROCESSES.to_string()]);
            self.settings(&mut command, cell, folder, number)?;
            process::capture(&mut command)
        };
        std::thread::scope(|scope| {
            let processes: Vec<_> = (0..PROCESSES).map(|number| scope.spawn(move || run(number))).collect();
            let ended = processes.into_iter().map(|process| process.join().unwrap_or_else(|_| bail!("a panic")));
            ended.collect()
        })
    }

    fn settings(&self, command: &mut Command, cell: Cell, folder: &Path, process: usize) -> Result<()> {
        process::without(command, &["NCCL_", "SCOREP_", "SCAN_"])
            .current_dir(folder)
            .envs(c_double::NCCL_ON_FAKE_GPU.iter().copied())
            .envs(MPI_SETTINGS)
            .env("NCCL_PROFILER_PLUGIN", &self.tools.plugin)
            .env("NCCL_OTF2_DIR", folder.join("out"))
            .env("NCCL_OTF2_VERBOSITY", "verbose")
            .env("SCOREP_ENABLE_TRACING", cell.writes_trace.to_string())
            .env("SCOREP_ENABLE_PROFILING", cell.writes_profile.to_string());
        if cell.special != Special::Scan {
            command.env("SCOREP_EXPERIMENT_DIRECTORY", format!("experiment-{process}"));
        }
        match cell.special {
            Special::Nothing | Special::Scan => {}
            Special::Calls => {
                command.env("NCCL_OTF2_SCOREP", "calls");
            }
            Special::Together => {
                command.env("NCCL_OTF2_SCOREP", "off").env("SCOREP_JOB_LATE_US", LATE_US);
            }
            Special::Flushes => {
                command.env("SCOREP_TOTAL_MEMORY", LITTLE_MEMORY);
            }
            Special::Filter => {
                let rules = "SCOREP_REGION_NAMES_BEGIN\n  EXCLUDE ncclLaunchPlan\nSCOREP_REGION_NAMES_END\n";
                cache::write(&folder.join("filter"), rules)?;
                command.env("SCOREP_FILTERING_FILE", folder.join("filter"));
            }
            Special::Substrate => {
                let link = folder.join("lib/libscorep_substrate_nccl_otf2.so");
                cache::create(&folder.join("lib"))?;
                symlink(&self.tools.plugin, &link).with_context(|| format!("make {}", link.display()))?;
                command.env("SCOREP_SUBSTRATE_PLUGINS", "nccl_otf2").env("LD_LIBRARY_PATH", folder.join("lib"));
                command.env_remove("NCCL_OTF2_DIR");
            }
        }
        Ok(())
    }

    /// Compiles the program of a cell, unless another cell has done so.
    fn program(&self, cell: Cell) -> Result<PathBuf> {
        let link = if cell.link == Link::Preloaded { Link::Alone } else { cell.link };
        let kind = Cell { link, special: Special::Nothing, writes_trace: true, writes_profile: true, ..cell };
        let program = self.programs.join(format!("job-{kind}"));
        if program.is_file() {
            return Ok(program);
        }
        let (mpp, compiler) = if cell.has_mpi { ("mpi", "mpicc") } else { ("none", "cc") };
        let mut command = Command::new(if link == Link::Alone { compiler } else { "scorep" });
        if link != Link::Alone {
            command.arg(format!("--mpp={mpp}")).arg(format!("--thread={}", cells::name(cell.threads)));
            if link == Link::NoCompiler {
                // Without MPI and threads, the program would not contain Score-P at all.
                command.args(["--nocompiler", "--user"]);
            }
            command.arg(compiler);
        }
        if cell.has_mpi {
            command.arg("-DWITH_MPI");
        }
        match cell.threads {
            Threads::None => {}
            Threads::Pthread => {
                command.args(["-DTHREADS=1", "-pthread"]);
            }
            Threads::Omp => {
                command.args(["-DTHREADS=2", "-fopenmp"]);
            }
        }
        let source = cargo::root().join("xtask/c/scorep_job.c");
        command.args(["-O1", "-g", "-o"]).arg(&program).arg(source).arg("-ldl").current_dir(&self.programs);
        let output = process::capture(&mut command)?;
        ensure!(output.status.success(), "compile {}: {}{}", program.display(), output.out, output.err);
        Ok(program)
    }

    /// The value of `LD_PRELOAD`: the emulated devices, and Score-P if it is preloaded.
    fn preload(&self, cell: Cell, program: &Path, folder: &Path) -> Result<String> {
        let devices = self.tools.fake_gpu.display();
        if cell.link != Link::Preloaded {
            return Ok(devices.to_string());
        }
        let mut command = Command::new("scorep-preload-init");
        command.arg("--value-only");
        // Without an adapter, the measurement library lacks symbols.
        command.args(if cell.has_mpi { &["--mpp=mpi"][..] } else { &["--mpp=none", "--user"][..] });
        if cell.threads != Threads::None {
            command.arg(format!("--thread={}", cells::name(cell.threads)));
        }
        command.arg(program).current_dir(folder);
        let libraries = process::output(&mut command, "scorep-preload-init")?;
        Ok(format!("{devices}:{}", libraries.trim()))
    }
}

/// Settings that allow MPI to run here.
pub(super) const MPI_SETTINGS: [(&str, &str); 4] = [
    ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
    ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
    ("OMPI_MCA_mpi_yield_when_idle", "1"),
];

fn last_complaint(text: &str) -> &str {
    let words = ["Fatal", "Abort", "Assertion", "Bug", "rror", "scorep_job:"];
    let complaint = text.lines().find(|line| words.iter().any(|word| line.contains(word)));
    complaint.unwrap_or_else(|| process::last(text))
}
