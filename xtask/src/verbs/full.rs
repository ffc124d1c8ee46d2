//! `cargo xtask full`: the checks that take too long for each change. `.ci/run` has the others.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow};
use clap::ValueEnum;

use crate::cache::{self, Cache};
use crate::cargo;
use crate::error::missing;
use crate::nccl;
use crate::packages;
use crate::process;
use crate::python::Python;

/// Run every check that .ci/run leaves out: once before a change is done, and nightly
///
///   cargo xtask full                 everything, in an hour on two cores; needs root on Debian 12
///   cargo xtask full fuzz matrix     these sections
///
/// Each section is one line here and a file in target/full. A section that fails does not stop
/// those after it. The last line names the sections that passed, and those that did not. `cost`,
/// `cmake`, `packages`, `roots` and `wheel` use what `dist` has made; alone, what it made last.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Sections to run; all in turn by default
    #[arg(value_name = "SECTION", value_enum)]
    sections: Vec<Section>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Section {
    /// Lints of the tool without the features that can be left out
    Lints,
    /// CUPTI's records, compared with CUPTI's headers
    CuptiLayout,
    /// A release without changing anything, and the packages of the crates that others use
    Release,
    /// The tests of whole jobs, on six more releases of NCCL
    Releases,
    /// A hundred seeds of each kind of noise, in which no rank is to be called late
    Noise,
    /// The demo, with two releases of NCCL
    Demo,
    /// Ten ways to run NCCL that the tests do not have (all of them take an hour: cargo xtask matrix)
    Matrix,
    /// The checks for GPUs, on doubles of GPU and CUPTI
    GpuCheck,
    /// libFuzzer on everything that reads files of others, for a minute
    Fuzz,
    /// A thousand processes killed at random instants, and minutes of what may lose records
    Torture,
    /// Two minutes of a job under Prometheus
    Metrics,
    /// All that is published, built once for old systems
    Dist,
    /// Instructions of a callback, of what is published
    Cost,
    /// Installation by CMake of what is published
    Cmake,
    /// deb, rpm, Spack, EasyBuild
    Packages,
    /// Packages installed, used and removed in bare Debian 12 roots
    Roots,
    /// The wheel in a new environment, with a real NCCL
    Wheel,
}

/// What several sections use. Made before the first one, so that their lines have only what became of them.
struct Prepared {
    nccl: PathBuf,
    tools: cargo::Tools,
    easybuild: Python,
}

impl Prepared {
    fn prepare() -> Result<Self> {
        packages::ensure(packages::OF_PACKAGES)?;
        let nccl = nccl::newest()?;
        let easybuild = Python::ensure_easybuild(&Cache::open()?)?;
        Ok(Self { nccl, tools: cargo::Tools::build()?, easybuild })
    }
}

enum Outcome {
    Passed,
    Failed(anyhow::Error),
    /// This machine cannot run it.
    Skipped(&'static str),
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let sections = if args.sections.is_empty() { Section::value_variants() } else { &args.sections };
    let logs = cargo::target()?.join("full");
    cache::create(&logs)?;
    let prepared = Prepared::prepare()?;
    let began = Instant::now();
    let (mut passed, mut failed, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
    process::heading(&format!("{} sections, with their output in {}", sections.len(), logs.display()));
    for section in sections {
        let name = section.name();
        print!("   {name:14}");
        std::io::stdout().flush().context("write")?;
        let (since, log) = (Instant::now(), logs.join(format!("{name}.log")));
        let outcome = section.run(&prepared, &log);
        let seconds = since.elapsed().as_secs();
        match outcome {
            Outcome::Passed => {
                println!("passed   {seconds:5} s");
                passed.push(name);
            }
            Outcome::Failed(error) => {
                println!("FAILED   {seconds:5} s   {error:#}; see {}", log.display());
                failed.push(name);
            }
            Outcome::Skipped(reason) => {
                println!("skipped            {reason}");
                skipped.push(name);
            }
        }
    }
    println!("\n{} passed, {} failed, {} skipped", passed.len(), failed.len(), skipped.len());
    let list = |what: &str, names: &[String]| match names {
        [] => String::new(),
        names => format!("; {what}: {}", names.join(" ")),
    };
    let lists = list("passed", &passed) + &list("skipped", &skipped) + &list("FAILED", &failed);
    println!("full: {} s{lists}", began.elapsed().as_secs());
    if failed.is_empty() { Ok(()) } else { Err(anyhow!("failed: {}", failed.join(" "))) }
}

/// Makes tests of noise use a hundred seeds.
const ALL_SEEDS: &str = "NCCL_OTF2_TEST_ALL_SEEDS";

impl Section {
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    fn run(self, prepared: &Prepared, log: &Path) -> Outcome {
        if self == Self::Roots && !can_mount() {
            return Outcome::Skipped("this machine allows no mounts");
        }
        let run_all = || {
            let log = File::create(log).with_context(|| format!("create {}", log.display()))?;
            self.commands(prepared)?.into_iter().try_for_each(|mut command| run_logged(&mut command, &log))
        };
        run_all().map_or_else(Outcome::Failed, |()| Outcome::Passed)
    }

    fn commands(self, prepared: &Prepared) -> Result<Vec<Command>> {
        let root = cargo::root();
        let one = |command: Command| Ok(vec![command]);
        match self {
            Self::Lints => {
                let mut clippy = cargo::command("clippy");
                clippy.args(["-p", "nccl-otf2", "--no-default-features", "--", "-D", "warnings"]);
                one(clippy)
            }
            Self::CuptiLayout => one(xtask("cupti-layout --as-available")),
            Self::Release => one(xtask("release 999.0.0 --dry-run")),
            Self::Releases => {
                let mut tests = xtask("test -p nccl-otf2-recorder -p nccl-otf2-live -p nccl-otf2");
                tests.env(nccl::TEST_RELEASES, "all");
                one(tests)
            }
            Self::Noise => {
                let mut tests = cargo::command("test");
                tests.args(["--release", "-p", "nccl-otf2-analysis", "--lib", "--test", "links", "accuses"]);
                tests.env(ALL_SEEDS, "1");
                one(tests)
            }
            Self::Demo => one(xtask("demo --fake --nccl 2.28.9 --nccl 2.32.3")),
            Self::Matrix => Ok(vec![
                xtask(
                    "matrix --release 2.32.3 --cell tree-ll128 --cell shm --cell graph --cell several --cell \
                     several-threads --cell destroy-order --cell nonblocking --cell nvtx",
                ),
                xtask("matrix --release 2.23.4 --cell nvtx"),
                xtask("matrix --release 2.28.9 --cell exit --cell memcheck"),
            ]),
            Self::GpuCheck => one(xtask("gpu-check --debug --fake")),
            Self::Fuzz => one(xtask("fuzz --seconds 64")),
            Self::Torture => one(xtask("torture")),
            Self::Metrics => one(xtask("test --test metrics -- --ignored")),
            Self::Dist => one(xtask("dist")),
            Self::Cost => {
                let mut cost = xtask("test --test cost -- --ignored");
                cost.env("NCCL_OTF2_TEST_PUBLISHED_PLUGIN", published("lib/libnccl-profiler-otf2.so")?);
                one(cost)
            }
            Self::Cmake => cmake(),
            Self::Packages => {
                let mut packages = Command::new(root.join("packaging/tests/packages.sh"));
                packages.arg(cargo::target()?.join("packages"));
                let mut spack = Command::new("python3");
                spack.arg("-B").arg(root.join("packaging/spack/test_package.py"));
                let mut easyconfig = Command::new(prepared.easybuild.interpreter());
                easyconfig.arg("-B").arg(root.join("packaging/easybuild/test_easyconfig.py"));
                Ok(vec![packages, spack, easyconfig])
            }
            Self::Roots => roots(prepared),
            Self::Wheel => {
                let mut wheel = Command::new("python3");
                wheel.arg(root.join("packaging/python/tests/test_wheel.py")).arg(packed(".whl")?).arg(&prepared.nccl);
                wheel.args(prepared.tools.nccl_host.parent());
                one(wheel)
            }
        }
    }
}

/// The tree that `dist` has built, with the names that are loaded without a variable, tested as installed.
fn cmake() -> Result<Vec<Command>> {
    let tree = cargo::target()?.join("cmake");
    let cmake = |options: &[&str]| {
        let mut command = Command::new("cmake");
        command.args(options).arg(&tree);
        command
    };
    let mut test = Command::new("ctest");
    test.arg("--output-on-failure").arg("--test-dir").arg(&tree);
    let plain = "-DNCCL_OTF2_PLAIN_LINK=ON";
    Ok(vec![cmake(&[plain]), cmake(&["--build"]), test])
}

fn roots(prepared: &Prepared) -> Result<Vec<Command>> {
    let target = cargo::target()?;
    let (tree, destdir) = (target.join("cmake"), target.join("destdir"));
    cache::remove(&destdir)?;
    let mut install = Command::new("cmake");
    install.arg("--install").arg(&tree).args(["--prefix", "/opt/nccl-otf2"]).env("DESTDIR", &destdir);
    let Prepared { nccl, tools, .. } = prepared;
    let mut roots = Command::new(cargo::root().join("packaging/tests/roots.sh"));
    roots.arg("--nccl").arg(nccl).arg("--host").arg(&tools.nccl_host).arg("--gpu").arg(&tools.fake_gpu);
    let debs: Vec<String> = all_packed(".deb")?.iter().map(|file| file.display().to_string()).collect();
    let kinds = [
        ("deb", debs.join(",")),
        ("prefix", tree.join("tests/prefix").display().to_string()),
        ("destdir", destdir.display().to_string()),
        ("wheel", packed(".whl")?.display().to_string()),
        ("tarball", packed(&format!("-linux-{}.tar.xz", std::env::consts::ARCH))?.display().to_string()),
    ];
    roots.args(kinds.map(|(kind, files)| format!("{kind}={files}")));
    Ok(vec![install, roots])
}

/// `cargo xtask` with the words of `line`. Started by cargo, because a section's build may replace this program's file.
fn xtask(line: &str) -> Command {
    let mut command = cargo::command("run");
    command.args(["--quiet", "--package", "xtask", "--"]).args(line.split_ascii_whitespace());
    // A test that would skip fails instead.
    command.env("CI", "true");
    command
}

fn run_logged(command: &mut Command, log: &File) -> Result<()> {
    let stream = || log.try_clone().context("write the log");
    command.current_dir(cargo::root()).stdin(Stdio::null()).stdout(stream()?).stderr(stream()?);
    let line = process::shown(command);
    writeln!(&*log, "$ {line}").context("write the log")?;
    let status = command.status().with_context(|| format!("start {line}"))?;
    if status.success() { Ok(()) } else { Err(anyhow!("ended with {status}")) }
}

/// A file of the prefix that `dist` has packed.
fn published(name: &str) -> Result<PathBuf> {
    let prefixes = cargo::target()?.join("dist-prefix");
    let folders = cache::list(&prefixes).unwrap_or_default();
    let file = folders.first().map(|prefix| prefix.join(name)).filter(|file| file.is_file());
    file.ok_or_else(|| missing(format!("{} has no {name}: run cargo xtask full dist", prefixes.display())))
}

fn all_packed(ending: &str) -> Result<Vec<PathBuf>> {
    let folder = cargo::target()?.join("packages");
    let mut files = cache::list(&folder).unwrap_or_default();
    files.retain(|file| file.to_string_lossy().ends_with(ending));
    if files.is_empty() {
        return Err(missing(format!("{} has no *{ending}: run cargo xtask full dist", folder.display())));
    }
    Ok(files)
}

fn packed(ending: &str) -> Result<PathBuf> {
    all_packed(ending).map(|mut files| files.remove(0))
}

fn can_mount() -> bool {
    let mut mount = Command::new("unshare");
    process::succeeds(mount.args(["--mount", "--propagation", "private", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]))
}
