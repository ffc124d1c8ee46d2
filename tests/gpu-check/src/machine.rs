//! What this machine has: GPUs, and NVIDIA's libraries on the library path or where Python packages put them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::bundle::Bundle;
use crate::options::Options;
use crate::outcome::Facts;
use crate::process;

const NCCL: &[&str] = &["libnccl.so.2"];
const RUNTIME: &[&str] = &["libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"];
const CUPTI: &[&str] = &["libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8"];
/// Below `site-packages`: where the packages of CUDA 13, and those before, have their libraries.
const IN_PYTHON: &[&str] = &[
    "nvidia/nccl/lib",
    "nvidia/cu13/lib",
    "nvidia/cuda_runtime/lib",
    "nvidia/cuda_cupti/lib",
];

/// What there is to work with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    pub(crate) gpus: usize,
    pub(crate) nccl: Option<PathBuf>,
    pub(crate) cudart: Option<PathBuf>,
    pub(crate) cupti: Option<PathBuf>,
    /// None: the system's.
    pub(crate) driver: Option<PathBuf>,
    /// A Python that has PyTorch.
    pub(crate) torch: Option<PathBuf>,
    pub(crate) nsys: Option<PathBuf>,
    /// CPUs that this process may run on.
    pub(crate) cpus: usize,
}

impl Machine {
    /// Looks around.
    pub(crate) fn look(options: &Options, bundle: &Bundle, work: &Path) -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        if options.fake_gpu {
            return Self {
                nccl: options.nccl.clone(),
                cupti: Some(bundle.fake_cupti()),
                driver: Some(bundle.fake_driver()),
                cpus,
                ..Self::default()
            };
        }
        let python = options.python.clone().or_else(|| on_path("python3"));
        let mut sites = python
            .iter()
            .flat_map(|python| sites_of(python, work))
            .collect::<Vec<_>>();
        sites.extend(python_sites());
        let folders = folders(&sites);
        let find = |given: &Option<PathBuf>, names: &[&str]| {
            given.clone().or_else(|| first(&folders, names))
        };
        let cudart = find(&options.cudart, RUNTIME);
        Self {
            gpus: devices(Path::new("/dev")),
            nccl: find(&options.nccl, NCCL),
            cupti: find(&options.cupti, &of_release(CUPTI, cudart.as_deref())),
            cudart,
            driver: None,
            torch: python.filter(|python| has_torch(python, work)),
            nsys: on_path("nsys"),
            cpus,
        }
    }

    /// Everything, as facts.
    pub(crate) fn facts(&self) -> Facts {
        let path = |path: &Option<PathBuf>| {
            let real = path
                .as_ref()
                .map(|path| path.canonicalize().unwrap_or_else(|_| path.clone()));
            json!(real.map(|path| path.display().to_string()))
        };
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let driver = std::fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
        let mut facts = Facts::new();
        facts.insert("gpus".to_owned(), json!(self.gpus));
        facts.insert("cpus".to_owned(), json!(self.cpus));
        facts.insert("kernel".to_owned(), json!(kernel.trim()));
        facts.insert(
            "driver".to_owned(),
            json!(driver.lines().next().map(str::trim)),
        );
        facts.insert("nccl".to_owned(), path(&self.nccl));
        facts.insert("cuda_runtime".to_owned(), path(&self.cudart));
        facts.insert("cupti".to_owned(), path(&self.cupti));
        facts.insert("python_with_torch".to_owned(), path(&self.torch));
        facts.insert("nsys".to_owned(), path(&self.nsys));
        facts
    }

    /// `LD_LIBRARY_PATH` for programs that are to find the libraries found here.
    pub(crate) fn library_path(&self) -> String {
        let found = [&self.nccl, &self.cudart, &self.cupti, &self.driver];
        let mut folders: Vec<String> = found
            .into_iter()
            .filter_map(|library| Some(library.as_ref()?.parent()?.display().to_string()))
            .collect();
        folders.dedup();
        folders.extend(std::env::var("LD_LIBRARY_PATH").ok());
        folders.join(":")
    }
}

/// Number of GPUs with a device file.
fn devices(dev: &Path) -> usize {
    let is_gpu = |name: &str| {
        name.strip_prefix("nvidia")
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    };
    let Ok(entries) = dev.read_dir() else {
        return 0;
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| is_gpu(name))
        .count()
}

/// The names, that of the CUDA release of the runtime first: NCCL's process is to have one release.
fn of_release(names: &[&'static str], runtime: Option<&Path>) -> Vec<&'static str> {
    let release = runtime
        .and_then(|path| path.file_name()?.to_str())
        .and_then(|name| name.split(".so.").nth(1))
        .and_then(|version| version.split('.').next())
        .map(|major| format!(".so.{major}"));
    let mut names = names.to_vec();
    if let Some(release) = release {
        names.sort_by_key(|name| !name.contains(&release));
    }
    names
}

/// The first name that any folder has; a folder before another counts more than a name before another in one folder.
fn first(folders: &[PathBuf], names: &[&str]) -> Option<PathBuf> {
    names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|file| file.is_file())
}

fn folders(sites: &[PathBuf]) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = std::env::var_os("LD_LIBRARY_PATH")
        .map(|path| std::env::split_paths(&path).collect())
        .unwrap_or_default();
    for site in sites {
        folders.extend(IN_PYTHON.iter().map(|inside| site.join(inside)));
    }
    let homes = ["CUDA_HOME", "CUDA_PATH"].into_iter();
    let homes = homes.filter_map(std::env::var_os).map(PathBuf::from);
    for home in homes.chain([PathBuf::from("/usr/local/cuda")]) {
        folders.extend([home.join("lib64"), home.join("extras/CUPTI/lib64")]);
    }
    folders.extend(
        [
            "/usr/lib/x86_64-linux-gnu",
            "/usr/lib/aarch64-linux-gnu",
            "/usr/lib64",
            "/usr/lib",
            "/usr/local/lib",
        ]
        .map(PathBuf::from),
    );
    folders
}

/// Folders of Python packages, found by looking: those of the Pythons on `PATH` come first.
fn python_sites() -> Vec<PathBuf> {
    let mut prefixes: Vec<PathBuf> = ["VIRTUAL_ENV", "CONDA_PREFIX"]
        .into_iter()
        .filter_map(|name| std::env::var_os(name).map(PathBuf::from))
        .collect();
    let path = std::env::var_os("PATH").unwrap_or_default();
    for folder in std::env::split_paths(&path) {
        let python = folder.join("python3");
        if python.is_file() {
            prefixes.extend(prefixes_of(&python));
        }
    }
    prefixes.extend(std::env::var_os("HOME").map(|home| Path::new(&home).join(".local")));
    prefixes.extend(["/usr/local", "/usr", "/opt/conda"].map(PathBuf::from));
    let mut sites: Vec<PathBuf> = Vec::new();
    for prefix in prefixes {
        for site in sites_below(&prefix) {
            if !sites.contains(&site) {
                sites.push(site);
            }
        }
    }
    sites
}

/// The folders above the one that has a program, by its name and by each link that it leads along: an environment may be
/// reached by one, and its own program is a link again.
fn prefixes_of(program: &Path) -> Vec<PathBuf> {
    const MOST_LINKS: usize = 16;
    let mut prefixes = Vec::new();
    let mut at = program.to_owned();
    for _ in 0..MOST_LINKS {
        let Some(folder) = at.parent() else { break };
        let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        prefixes.extend(real.parent().map(Path::to_owned));
        match at.read_link() {
            Ok(to) => at = real.join(to),
            Err(_) => break,
        }
    }
    prefixes
}

/// The folders that a Python looks in, by its own word: it may be a script that starts another.
fn sites_of(python: &Path, work: &Path) -> Vec<PathBuf> {
    let mut ask = Command::new(python);
    ask.args(["-c", "import sys; print('\\n'.join(sys.path))"]);
    match process::run(&mut ask, Duration::from_secs(20), &work.join("sys-path")) {
        Ok(ran) => ran.stdout.lines().map(PathBuf::from).collect(),
        Err(_) => Vec::new(),
    }
}

fn sites_below(prefix: &Path) -> Vec<PathBuf> {
    let Ok(entries) = prefix.join("lib").read_dir() else {
        return Vec::new();
    };
    let mut pythons: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with("python3"))
        })
        .collect();
    pythons.sort();
    pythons
        .iter()
        .rev()
        .flat_map(|python| ["site-packages", "dist-packages"].map(|folder| python.join(folder)))
        .filter(|site| site.is_dir())
        .collect()
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

fn has_torch(python: &Path, work: &Path) -> bool {
    let mut ask = Command::new(python);
    ask.args([
        "-c",
        "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)",
    ]);
    process::run(&mut ask, Duration::from_secs(20), &work.join("has-torch"))
        .is_ok_and(|ran| ran.succeeded())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(name: &str, files: &[&str]) -> PathBuf {
        let root = std::env::temp_dir().join(format!("gpu-check-{name}-{}", std::process::id()));
        for file in files {
            let file = root.join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "").unwrap();
        }
        root
    }

    #[test]
    fn python_packages_have_the_libraries() {
        let root = tree(
            "sites",
            &[
                "lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2",
                "lib/python3.12/site-packages/nvidia/cu13/lib/libcudart.so.13",
                "lib/python3.12/site-packages/nvidia/cuda_cupti/lib/libcupti.so.12",
                "lib/python3.12/site-packages/nvidia/cu13/lib/libcupti.so.13",
            ],
        );
        let sites = sites_below(&root);
        let folders: Vec<PathBuf> = sites
            .iter()
            .flat_map(|site| IN_PYTHON.iter().map(move |inside| site.join(inside)))
            .collect();
        let found = |names: &[&str]| {
            let file = first(&folders, names).unwrap();
            file.strip_prefix(sites.first().unwrap())
                .unwrap()
                .to_owned()
        };
        assert_eq!(found(NCCL), Path::new("nvidia/nccl/lib/libnccl.so.2"));
        assert_eq!(found(RUNTIME), Path::new("nvidia/cu13/lib/libcudart.so.13"));
        let of_12 = of_release(CUPTI, Some(Path::new("/x/libcudart.so.12")));
        assert_eq!(found(CUPTI), Path::new("nvidia/cu13/lib/libcupti.so.13"));
        assert_eq!(
            found(&of_12),
            Path::new("nvidia/cuda_cupti/lib/libcupti.so.12")
        );
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn an_environment_behind_links_is_found() {
        let root = tree(
            "links",
            &["usr/bin/python3.12", "venv/bin/activate", "local/bin/x"],
        );
        let root = root.canonicalize().unwrap();
        let link = |to: &str, name: &str| {
            std::os::unix::fs::symlink(root.join(to), root.join(name)).unwrap();
        };
        link("usr/bin/python3.12", "venv/bin/python");
        std::os::unix::fs::symlink("python", root.join("venv/bin/python3")).unwrap();
        link("venv/bin/python3", "local/bin/python3");
        let found = prefixes_of(&root.join("local/bin/python3"));
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(found.first().unwrap(), &root.join("local"));
        assert!(found.contains(&root.join("venv")), "{found:?}");
        assert_eq!(found.last().unwrap(), &root.join("usr"));
    }

    #[test]
    fn control_files_are_no_gpus() {
        let root = tree(
            "dev",
            &[
                "nvidia0",
                "nvidia11",
                "nvidiactl",
                "nvidia-uvm",
                "nvidia-caps",
            ],
        );
        assert_eq!(devices(&root), 2);
        std::fs::remove_dir_all(root).unwrap();
    }
}
