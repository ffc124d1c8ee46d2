//! The cells: the program, how Score-P measures it, and what Score-P writes.

use std::fmt;

/// How Score-P gets into the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Link {
    /// `scorep mpicc …`: with the functions of the program.
    Instrumented,
    /// `scorep --nocompiler mpicc …`: without them.
    NoCompiler,
    /// `scorep-preload-init`, and an ordinary program.
    Preloaded,
    Alone,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Threads {
    None,
    Pthread,
    Omp,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Special {
    Nothing,
    /// `SCOREP_SUBSTRATE_PLUGINS=nccl_otf2`.
    Substrate,
    /// Little memory and many rounds, so that Score-P writes out full buffers.
    Flushes,
    /// `NCCL_OTF2_SCOREP=calls`.
    Calls,
    /// `scan -t` starts the job, and scout analyses its trace.
    Scan,
    /// `SCOREP_FILTERING_FILE`.
    Filter,
    /// Ranks are late for MPI and for NCCL; scout analyses both in the result of `merge --for scalasca`.
    Together,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) link: Link,
    pub(super) has_mpi: bool,
    pub(super) threads: Threads,
    pub(super) writes_trace: bool,
    pub(super) writes_profile: bool,
    pub(super) special: Special,
}

const USUAL: Cell = Cell {
    link: Link::Instrumented,
    has_mpi: true,
    threads: Threads::None,
    writes_trace: true,
    writes_profile: true,
    special: Special::Nothing,
};

/// All cells: every combination of programs, MPI and thread models, and a few with other settings.
pub(super) fn all() -> Vec<Cell> {
    let mut cells = Vec::new();
    for link in [Link::Instrumented, Link::NoCompiler, Link::Preloaded] {
        for has_mpi in [false, true] {
            for threads in [Threads::None, Threads::Pthread, Threads::Omp] {
                cells.push(Cell { link, has_mpi, threads, ..USUAL });
            }
        }
    }
    let with_pthread = Cell { threads: Threads::Pthread, ..USUAL };
    let preloaded = Cell { link: Link::Preloaded, has_mpi: false, ..USUAL };
    for cell in [with_pthread, preloaded] {
        cells.push(Cell { writes_profile: false, ..cell });
        cells.push(Cell { writes_trace: false, ..cell });
        cells.push(Cell { writes_trace: false, writes_profile: false, ..cell });
    }
    for link in [Link::Instrumented, Link::Preloaded] {
        cells.push(Cell { link, special: Special::Substrate, ..USUAL });
    }
    for threads in [Threads::None, Threads::Pthread, Threads::Omp] {
        cells.push(Cell { threads, writes_profile: false, special: Special::Flushes, ..USUAL });
    }
    for special in [Special::Calls, Special::Filter] {
        cells.push(Cell { special, ..USUAL });
    }
    for special in [Special::Scan, Special::Together] {
        cells.push(Cell { writes_profile: false, special, ..USUAL });
    }
    cells
}

pub(super) fn alone(has_mpi: bool) -> Cell {
    Cell { link: Link::Alone, has_mpi, writes_trace: false, writes_profile: false, ..USUAL }
}

/// The cells whose NCCL archives are compared with that of the job without Score-P.
pub(super) fn compared(has_mpi: bool) -> [Cell; 2] {
    [Link::Instrumented, Link::Preloaded].map(|link| Cell { link, has_mpi, ..USUAL })
}

/// The name of a `Link` or of `Threads`, as Score-P's options spell it.
pub(super) fn name(kind: impl fmt::Debug) -> String {
    format!("{kind:?}").to_lowercase()
}

impl Cell {
    /// Whether Score-P knows the thread that calls NCCL: a preloaded Score-P does not see thread creation.
    pub(super) fn knows_the_caller(&self) -> bool {
        self.link != Link::Preloaded || self.threads == Threads::None
    }

    pub(super) fn impossible(&self) -> Option<&'static str> {
        let is_it = self.link == Link::Preloaded && self.threads == Threads::Omp;
        is_it.then_some("Score-P's OpenMP adapter cannot be preloaded (no `POMP2_Get_num_regions`)")
    }

    pub(super) fn writes(&self) -> bool {
        self.writes_trace || self.writes_profile
    }

    pub(super) fn shows_calls_only(&self) -> bool {
        matches!(self.special, Special::Calls | Special::Scan)
    }

    pub(super) fn shows(&self) -> bool {
        self.writes() && self.special != Special::Together
    }

    pub(super) fn rounds(&self) -> u32 {
        if self.special == Special::Flushes { 30_000 } else { 20 }
    }

    pub(super) fn writes_what(&self) -> &'static str {
        match (self.writes_trace, self.writes_profile) {
            (true, true) => "trace, profile",
            (true, false) => "trace",
            (false, true) => "profile",
            (false, false) => "nothing",
        }
    }
}

impl Special {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::Substrate => "substrate plugin",
            Self::Flushes => "flushes",
            Self::Calls => "calls",
            Self::Scan => "scan -t",
            Self::Filter => "filter",
            Self::Together => "for scalasca",
        }
    }
}

/// The name, such as `instrumented-mpi-pthread-trace-flushes`.
impl fmt::Display for Cell {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mpi = if self.has_mpi { "mpi" } else { "none" };
        write!(out, "{}-{mpi}-{}", name(self.link), name(self.threads))?;
        if !(self.writes_trace && self.writes_profile) && self.link != Link::Alone {
            write!(out, "-{}", self.writes_what())?;
        }
        if self.special != Special::Nothing {
            write!(out, "-{}", self.special.name().replace(' ', "-"))?;
        }
        Ok(())
    }
}
