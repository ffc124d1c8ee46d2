//! Chooses the backend.
//!
//! CUPTI reports most, but in most releases it serves one tool at a time, and a second tool can lose its records
//! without an error. So the plugin does not use CUPTI if another tool uses it or may use it later. CUDA events do not
//! disturb other tools.

use super::driver::CudaError;
use cupti_sys::other_user;
use nccl_events::gpu::Backend as BackendKind;
use nccl_events::{Kind, Table, event};
use settings::config::BackendChoice;

#[derive(Clone, Copy, Debug)]
pub(super) struct Surroundings<'a> {
    pub(super) maps: &'a [String],
    pub(super) environment: &'a [(String, String)],
    /// The result of asking for the driver's version; `None` without a driver.
    pub(super) driver: Option<Result<u32, CudaError>>,
    pub(super) table: Table,
    pub(super) mask: u32,
    /// Whether an earlier session of the plugin loaded CUPTI.
    pub(super) is_cupti_ours: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    /// The backend. If CUPTI is chosen but cannot be opened, the worker uses events.
    pub(super) backend: BackendKind,
    pub(super) line: String,
    /// Whether every user must read it.
    pub(super) is_fault: bool,
}

pub(super) fn decide(choice: BackendChoice, process: &Surroundings<'_>) -> Decision {
    if let Some((why, is_fault)) = obstacle(choice, process) {
        return Decision { backend: BackendKind::Off, line: format!("GPU work is not timed: {why}"), is_fault };
    }
    let (backend, line) = match (choice, other_user(process.maps, process.environment, process.is_cupti_ours)) {
        (BackendChoice::Events, _) => {
            (BackendKind::Events, "GPU work is timed by CUDA events, as NCCL_OTF2_GPU=events says".to_owned())
        }
        (BackendChoice::Auto, Some((who, sign))) => (
            BackendKind::Events,
            format!(
                "GPU work is timed by CUDA events and not by CUPTI, which {who} may want ({sign}); NCCL_OTF2_GPU=cupti takes it all the same"
            ),
        ),
        (BackendChoice::Cupti, Some((who, sign))) => (
            BackendKind::Cupti,
            format!(
                "GPU work is timed by CUPTI, as NCCL_OTF2_GPU=cupti says; {who} ({sign}) may get nothing from it now"
            ),
        ),
        _ => (BackendKind::Cupti, "GPU work is timed by CUPTI (NCCL_OTF2_GPU=events does without)".to_owned()),
    };
    Decision { backend, line, is_fault: false }
}

/// The reason why nothing can be timed, and whether every user must read it.
fn obstacle(choice: BackendChoice, process: &Surroundings<'_>) -> Option<(String, bool)> {
    let launches = Kind::KernelLaunch.mask() | Kind::CeColl.mask();
    let is_wanted = matches!(choice, BackendChoice::Cupti | BackendChoice::Events);
    let (why, is_fault) = match process.driver {
        _ if choice == BackendChoice::Off => ("NCCL_OTF2_GPU=off", false),
        None => ("no libcuda.so.1 is loaded in this process", is_wanted),
        Some(Err(CudaError::STUB_LIBRARY)) => (
            "the libcuda.so.1 that is loaded is a CUDA toolkit's stub for linking; take its directory out of \
             LD_LIBRARY_PATH, or set NCCL_OTF2_GPU=off",
            true,
        ),
        Some(Err(refusal)) => {
            return Some((format!("libcuda.so.1 does not answer: {refusal}; NCCL_OTF2_GPU=off silences this"), true));
        }
        Some(Ok(_)) if !event::has(process.table, Kind::KernelLaunch) => {
            ("this NCCL does not report its launches; 2.28 and later do", is_wanted)
        }
        Some(Ok(_)) if process.mask & launches == 0 => ("NCCL_OTF2_EVENTS leaves out KernelLaunch", is_wanted),
        Some(Ok(_)) => return None,
    };
    Some((why.to_owned(), is_fault))
}

#[cfg(test)]
mod tests {
    use super::*;
    use settings::STANDARD;

    const PLAIN: Surroundings<'_> = Surroundings {
        maps: &[],
        environment: &[],
        driver: Some(Ok(12080)),
        table: Table::V5,
        mask: STANDARD,
        is_cupti_ours: false,
    };

    fn decided(choice: BackendChoice, file: &str, (name, value): (&str, &str), is_cupti_ours: bool) -> Decision {
        let maps = ["/usr/lib/libcuda.so.1", "/usr/lib/libcudart.so.12", file].map(str::to_owned);
        let environment = [("PATH", "/opt/nsys/bin"), (name, value)].map(|(name, value)| (name.into(), value.into()));
        decide(choice, &Surroundings { maps: &maps, environment: &environment, is_cupti_ours, ..PLAIN })
    }

    #[test]
    fn cupti_is_left_to_another_tool_unless_the_user_wants_it() {
        let file = |file, who| (file, ("", ""), who);
        let variable = |name, value| ("", (name, value), name);
        for (file, variable, who) in [
            file("/opt/torch/lib/libtorch_cuda.so", "PyTorch"),
            file("/opt/torch/lib/libtorch_cpu.so", "PyTorch"),
            file("/usr/lib/libcupti.so.12", "loaded libcupti"),
            file("/usr/lib/libcupti.so.2025.1.0", "loaded libcupti"),
            file("/usr/lib/libscorep_adapter_cuda_event_with_a_long_name.so.12.34.56", "Score-P"),
            file("/opt/tau/libTAU.so", "TAU"),
            file("/opt/nsys/libToolsInjection64.so", "Nsight Systems"),
            file("/opt/cuda/libsanitizer-collection.so", "Sanitizer"),
            variable("CUDA_INJECTION64_PATH", "/opt/nsys/libToolsInjection64.so"),
            variable("NSYS_PROFILING_SESSION_ID", "4711"),
            variable("LD_PRELOAD", "/opt/nsys/libToolsInjectionProxy64.so"),
            variable("SCOREP_CUDA_ENABLE", "yes"),
            variable("KINETO_USE_DAEMON", "1"),
            variable("TAU_CUPTI_API", "runtime"),
            variable("NV_COMPUTE_PROFILER_PERFWORKS_DIR", "/opt/ncu"),
        ] {
            let sign = if file.is_empty() { variable.0 } else { file.rsplit('/').next().unwrap() };
            let auto = decided(BackendChoice::Auto, file, variable, false);
            assert_eq!((auto.backend, auto.is_fault), (BackendKind::Events, false), "{sign}");
            let wanted = decided(BackendChoice::Cupti, file, variable, false);
            assert_eq!(wanted.backend, BackendKind::Cupti, "{sign}");
            for line in [auto.line, wanted.line] {
                assert!([who, sign, "NCCL_OTF2_GPU=cupti"].iter().all(|text| line.contains(text)), "{line}");
                assert!(line.len() <= nccl_events::Name::MAX_BYTES, "it fits into the journal: {line}");
            }
            assert_eq!(decided(BackendChoice::Off, file, variable, false).backend, BackendKind::Off);
        }
        for (file, variable, is_cupti_ours) in [
            ("/opt/torch/nvidia/nccl/lib/libnccl.so.2", ("CUDA_INJECTION64_PATH", "none"), false),
            ("/home/user/libcupti.so.d/liba.so", ("CUDA_INJECTION64_PATH", ""), false),
            ("", ("SCOREP_CUDA_ENABLE", "no"), false),
            ("", ("KINETO_USE_DAEMON", "0"), false),
            ("", ("LD_PRELOAD", "/usr/lib/libjemalloc.so.2"), false),
            ("", ("MY_NSYS_PATH", "/opt/nsys"), false),
            ("/usr/lib/libcupti.so.13", ("", ""), true),
        ] {
            let decision = decided(BackendChoice::Auto, file, variable, is_cupti_ours);
            let expected = (BackendKind::Cupti, false);
            assert_eq!((decision.backend, decision.is_fault), expected, "{file} {variable:?}");
            let events = decided(BackendChoice::Events, file, variable, is_cupti_ours);
            assert_eq!(events.backend, BackendKind::Events, "{file} {variable:?}");
        }
    }

    #[test]
    fn what_cannot_be_timed_is_not_and_the_line_says_why() {
        let no_driver = Surroundings { driver: None, ..PLAIN };
        let stub = Surroundings { driver: Some(Err(CudaError::STUB_LIBRARY)), ..PLAIN };
        let mismatch = Surroundings { driver: Some(Err(CudaError(803))), ..PLAIN };
        let old = Surroundings { table: Table::V4, ..PLAIN };
        let few = Surroundings { mask: Kind::Coll.mask(), ..PLAIN };
        // A user who asked for timing gets a warning; others only if something is wrong.
        for (process, text, is_fault) in [
            (no_driver, "no libcuda.so.1 is loaded", false),
            (stub, "LD_LIBRARY_PATH", true),
            (mismatch, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)", true),
            (old, "2.28", false),
            (few, "NCCL_OTF2_EVENTS", false),
        ] {
            for choice in [BackendChoice::Auto, BackendChoice::Cupti, BackendChoice::Events] {
                let decision = decide(choice, &process);
                assert_eq!(decision.backend, BackendKind::Off, "{text}");
                assert!(decision.line.contains(text), "{}", decision.line);
                let is_asked_for = choice != BackendChoice::Auto;
                assert_eq!(decision.is_fault, is_fault || is_asked_for, "{text}");
            }
        }
    }
}
