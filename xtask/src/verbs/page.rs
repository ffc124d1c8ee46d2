//! `cargo xtask page`: checks the script of the report's page, and tests it in a browser.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::cargo;
use crate::packages::{self, CHROMIUM, NODE, NPM};
use crate::process;

/// Check the script of nccl-otf2 report's page, and try the page in Chromium
///
/// Types (tsc), style (eslint), unit tests (node), and the page in a browser: synthetic jobs, and the pages that
/// the tests of the tool made (target/tmp/reports). The tools are npm packages of fixed versions, in
/// node_modules/ beside the page.
#[derive(Default, clap::Args)]
pub(crate) struct Args {
    /// Keep pictures of the page here, to look at
    #[arg(long, value_name = "DIR")]
    screenshots: Option<std::path::PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    packages::ensure(&[NODE, NPM, CHROMIUM])?;
    process::heading("the report's page");
    let folder = cargo::root().join("crates/report/page");
    process::run(npm(&folder).args(["ci", "--no-audit", "--no-fund", "--loglevel=error"]))?;
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

fn npm(folder: &Path) -> Command {
    let mut command = Command::new("npm");
    command.current_dir(folder);
    command
}
