//! `cargo xtask site`: the pages as one site.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::cache::{self, Cache};
use crate::cargo;
use crate::process::{self, heading};

/// Build the pages as a site, with mdBook
///
/// docs/SUMMARY.md says which pages, and in what order. The site is in target/site/book; the report of cargo xtask demo
/// is in it as docs/report.html, where there is one. mdBook is compiled once and kept in the cache. That links lead
/// somewhere is a test: cargo test -p nccl-otf2-recorder --test pages links.
#[derive(clap::Args)]
pub(crate) struct Args {}

const MDBOOK: &str = "0.5.4";
const BOOK: &str = "[book]\ntitle = \"nccl-profiler-otf2\"\nlanguage = \"en\"\n[build]\ncreate-missing = false\n";

pub(crate) fn run(_: &Args) -> Result<()> {
    let cache = Cache::open()?;
    let place = cache.folder("mdbook").join(MDBOOK);
    let mdbook = place.join("bin/mdbook");
    if !mdbook.is_file() {
        heading("mdBook");
        let mut install = Command::new("cargo");
        install.args(["install", "mdbook", "--debug", "--locked", "--no-default-features", "--features", "search"]);
        process::run(install.args(["--version", MDBOOK, "--root"]).arg(&place))?;
    }
    heading("the site");
    let site = cargo::target()?.join("site");
    cache::remove(&site)?;
    let pages = "README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE-APACHE LICENSE-MIT docs";
    let mut listed = Command::new("git");
    listed.current_dir(cargo::root()).args(["ls-files"]).args(pages.split(' '));
    for file in process::output(&mut listed, "git ls-files")?.lines() {
        copy(&cargo::root().join(file), &site.join("src").join(file))?;
    }
    // mdBook wants this page at the top, from where links to docs/ look different.
    let summary = std::fs::read_to_string(cargo::root().join("docs/SUMMARY.md")).context("read docs/SUMMARY.md")?;
    let summary = summary.replace("](", "](docs/").replace("](docs/../", "](");
    cache::write(&site.join("src/SUMMARY.md"), summary)?;
    cache::write(&site.join("book.toml"), BOOK)?;
    let demo = cache::list(&cargo::target()?.join("demo")).unwrap_or_default();
    let reports = demo.iter().rev().flat_map(|folder| [folder.join("causes/report.html"), folder.join("report.html")]);
    if let Some(report) = reports.into_iter().find(|report| report.is_file()) {
        copy(&report, &site.join("src/docs/report.html"))?;
    }
    process::run(Command::new(mdbook).arg("build").arg(&site))?;
    println!("   a browser on {}", site.join("book/index.html").display());
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    cache::create(to.parent().unwrap_or(to))?;
    std::fs::copy(from, to).with_context(|| format!("copy {}", from.display()))?;
    Ok(())
}
