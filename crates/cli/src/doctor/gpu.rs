//! Checks the driver, CUPTI, and the tools that compete for them.

use std::fs;
use std::path::{Path, PathBuf};

use cupti_sys::load::Mapped;
use cupti_sys::{Search, other_user};
use nccl_events::gpu::Backend;
use nccl_events::{Kind, event};
use settings::config::{BackendChoice, without_all_kernels};

use super::environment::Environment;
use super::find::Found;
use super::report::Findings;

pub(super) fn timing(here: &Environment, found: &[Found], findings: &mut Findings) {
    let settings = &here.config.gpu;
    if settings.backend == BackendChoice::Off {
        let text = "NCCL_OTF2_GPU=off: GPU work is not timed, and the trace does not say which GPUs there are";
        findings.note("gpu", text, "");
        return;
    }
    let reports_launches = |one: &Found| one.nccl.called().is_some_and(|table| event::has(table, Kind::KernelLaunch));
    if here.config.mask & Kind::KernelLaunch.mask() == 0 {
        let text = "NCCL_OTF2_EVENTS leaves out KernelLaunch: GPU work is not timed";
        findings.note("gpu", text, "NCCL_OTF2_EVENTS=light or more");
    } else if !found.is_empty() && !found.iter().any(reports_launches) {
        findings.note("gpu", "GPU work is not timed: NCCL reports its launches from 2.28 on", "");
    }
    driver(here, findings);
    let cupti = cupti(here, found);
    let torch = found.iter().filter_map(|one| torch_beside(&one.library.path));
    let files: Vec<String> = torch.map(|file| file.display().to_string()).collect();
    let other = other_user(&files, &here.variables.pairs(), false);
    let wants_cupti = settings.backend == BackendChoice::Cupti;
    let is_timed_by_cupti = match settings.backend {
        BackendChoice::Cupti => cupti.is_some(),
        BackendChoice::Auto => cupti.is_some() && other.is_none(),
        BackendChoice::Events | BackendChoice::Off => false,
    };
    let backend = if is_timed_by_cupti { Backend::Cupti } else { Backend::Events };
    if let Some(line) = without_all_kernels(settings.kernels, backend) {
        findings.warning("cupti", line, "NCCL_OTF2_GPU=cupti NCCL_OTF2_CUPTI_KERNELS=all");
    }
    match (cupti, other) {
        (_, Some((who, sign))) if wants_cupti => findings.warning(
            "cupti",
            format!("NCCL_OTF2_GPU=cupti: {who} may want CUPTI too ({sign}), and one of both may get nothing"),
            "NCCL_OTF2_GPU=events disturbs no tool",
        ),
        (_, Some((who, sign))) => findings.note(
            "cupti",
            format!("GPU work is timed by CUDA events, because {who} may want CUPTI ({sign})"),
            "NCCL_OTF2_GPU=cupti takes it all the same",
        ),
        (Some(file), None) => findings.ok("cupti", format!("{} can be used", file.display())),
        (None, None) => findings.note(
            "cupti",
            "no libcupti was found: where there is a driver, GPU work is timed by CUDA events",
            "NCCL_OTF2_CUPTI_LIB names the file of CUPTI's library",
        ),
    }
}

fn driver(here: &Environment, findings: &mut Findings) {
    let kernel = fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
    let kernel =
        kernel.split_whitespace().find(|word| word.contains('.') && word.starts_with(|c: char| c.is_ascii_digit()));
    match (here.loader.find("libcuda.so.1"), kernel) {
        (Some(file), _) if file.components().any(|part| part.as_os_str() == "stubs") => findings.problem(
            "gpu",
            format!("{} is a CUDA toolkit's stub in place of the driver", file.display()),
            "take its directory out of LD_LIBRARY_PATH",
        ),
        (Some(file), Some(release)) => findings.ok("gpu", format!("driver {release}, {}", file.display())),
        (Some(file), None) => findings.note("gpu", format!("{} is here, but no NVIDIA kernel module", file.display()), "run the doctor where the job runs"),
        (None, _) => findings.note("gpu", "the loader finds no GPU driver (libcuda.so.1)", "on a login node: run the doctor where the job runs (srun nccl-otf2 doctor); in a container: start it with its GPUs (--gpus all, --nv)"),
    }
}

fn cupti(here: &Environment, found: &[Found]) -> Option<PathBuf> {
    let search = Search {
        explicit: here.config.gpu.cupti_library.as_ref().map(PathBuf::from),
        cuda_home: here.variable("CUDA_HOME").map(PathBuf::from),
    };
    let libraries = found.iter().map(|one| one.library.path.clone());
    let places = cupti_sys::load::places(&search, &Mapped::of(libraries.collect()));
    places.iter().filter_map(|place| place.to_str()).find_map(|place| here.loader.find(place))
}

fn torch_beside(library: &Path) -> Option<PathBuf> {
    let files = library.ancestors().skip(1).map(|folder| folder.join("torch/lib/libtorch_cuda.so"));
    files.take(5).find(|file| file.is_file())
}
