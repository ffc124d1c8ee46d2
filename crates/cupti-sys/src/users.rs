//! Other tools that use CUPTI. In most releases CUPTI serves one tool, and a second one can silently lose its records.

/// Libraries of tools that use CUPTI or may use it.
const LIBRARIES: [(&str, &str); 10] = [
    ("libtorch_cuda", "PyTorch's profiler"),
    ("libtorch_cpu", "PyTorch's profiler"),
    ("libkineto", "PyTorch's profiler"),
    ("libscorep_adapter_cuda", "Score-P"),
    ("libTAU", "TAU"),
    ("libToolsInjection", "Nsight Systems"),
    ("libInterceptorInjectionTarget", "Nsight"),
    ("libcuda-injection", "Nsight Compute"),
    ("libsanitizer-", "Compute Sanitizer"),
    ("libcupti.so", "whoever has loaded libcupti"),
];

/// Environment variables of such tools; a value that means "no" does not count. A name that ends in `_` is a prefix.
const VARIABLES: [(&str, &str); 7] = [
    ("CUDA_INJECTION64_PATH", "what is injected into CUDA"),
    ("NSYS_", "Nsight Systems"),
    ("NV_COMPUTE_PROFILER_", "Nsight Compute"),
    ("SCOREP_CUDA_ENABLE", "Score-P"),
    ("KINETO_USE_DAEMON", "PyTorch's profiler"),
    ("TAU_CUPTI_API", "TAU"),
    ("LD_PRELOAD", "what is preloaded"),
];

/// Another tool that may use CUPTI in a process with these files and this environment, and the evidence for it.
pub fn other_user(maps: &[String], environment: &[(String, String)], is_ours: bool) -> Option<(&'static str, String)> {
    for (library, who) in LIBRARIES {
        if library == "libcupti.so" && is_ours {
            continue;
        }
        let file = |path: &String| Some(path.rsplit('/').next()?.to_owned());
        let mut files = maps.iter().filter_map(file);
        if let Some(file) = files.find(|file| file.starts_with(library)) {
            return Some((who, format!("{file} is loaded")));
        }
    }
    for (variable, who) in VARIABLES {
        let is_sign = |name: &str, value: &str| match variable {
            "LD_PRELOAD" => name == variable && (value.contains("njection") || value.contains("nsys")),
            prefix if prefix.ends_with('_') => name.starts_with(prefix) && is_enabled(value),
            _ => name == variable && is_enabled(value),
        };
        if let Some((name, _)) = environment.iter().find(|(name, value)| is_sign(name, value)) {
            return Some((who, format!("{name} is set")));
        }
    }
    None
}

/// Whether a variable's value does not mean "no".
fn is_enabled(value: &str) -> bool {
    let no = ["", "0", "no", "none", "off", "false"];
    !no.contains(&value.trim().to_ascii_lowercase().as_str())
}
