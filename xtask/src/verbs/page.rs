//! `cargo xtask page`: checks the script of the report's page, and tests it in a browser.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::cargo;
use crate::nccl;
use crate::packages::{self, CHROMIUM, NODE, NPM};
use crate::process;

/// Check the script of the page of nccl-otf2 report, and test the page in Chromium
///
/// Types (tsc), style (eslint), unit tests (node), and the page in a browser: synthetic jobs, and the pages that
/// the tests of the tool made (target/tmp/reports). The tools are npm packages of fixed versions, in
/// node_modules/ beside the page.
#[derive(Default, clap::Args)]
pub(crate) struct Args {
    /// Save screenshots of the page to this directory
    #[arg(long, value_name = "DIR")]
    screenshots: Option<std::path::PathBuf>,
    /// Only take the picture of the README: of the demo's report, as `cargo xtask demo` recorded it last
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = PICTURE)]
    picture: Option<std::path::PathBuf>,
}

/// The picture of the README.
const PICTURE: &str = "docs/images/report.png";

pub(crate) fn run(args: &Args) -> Result<()> {
    packages::ensure(&[NODE, NPM, CHROMIUM])?;
    process::heading("the report's page");
    let folder = cargo::root().join("crates/report/page");
    process::run(npm(&folder).args(["ci", "--no-audit", "--no-fund", "--loglevel=error"]))?;
    if let Some(file) = &args.picture {
        return picture(&folder, file);
    }
    process::run(npm(&folder).args(["run", "--silent", "check"]))?;
    process::run(npm(&folder).args(["run", "--silent", "test"]))?;
    let reports = cargo::target()?.join("tmp/reports");
    let mut browser = npm(&folder);
    browser.args(["run", "--silent", "browser"]);
    if reports.is_dir() {
        browser.env("REPORTS", reports);
    }
    if let Some(screenshots) = &args.screenshots {
        std::fs::create_dir_all(screenshots)?;
        browser.env("SCREENSHOTS", std::path::absolute(screenshots)?);
    }
    process::run(&mut browser)
}

/// Writes the demo's report anew, and takes its picture.
fn picture(folder: &Path, file: &Path) -> Result<()> {
    let demo = cargo::target()?.join("demo").join(nccl::NEWEST);
    let job = demo.join("causes");
    ensure!(job.is_dir(), "{} is missing: `cargo xtask demo --fake` records it", job.display());
    let page = demo.join("picture.html");
    let mut report = Command::new("cargo");
    report.current_dir(cargo::root()).args(["run", "--quiet", "--locked", "--package", "nccl-otf2", "--", "report"]);
    process::run(report.arg(&job).args(["--title", "demo", "--output"]).arg(&page))?;
    let file = cargo::root().join(file);
    process::run(npm(folder).args(["run", "--silent", "picture", "--"]).args([&page, &file]))?;
    println!("   {}", file.display());
    Ok(())
}

fn npm(folder: &Path) -> Command {
    let mut command = Command::new("npm");
    command.current_dir(folder);
    command
}
