//! `cargo xtask release`: gives a version its number everywhere, and shows or makes its tag.

use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::cache;
use crate::cargo;
use crate::process::{self, heading};

/// Set the version, close the changelog's entry, commit and tag
///
/// Refuses where the tree is not clean, the version is not higher, or the changelog has nothing to say. What is
/// published is made of the tag by `cargo xtask dist`. Nothing is pushed.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The new version, such as 1.0.0
    version: String,
    /// Show what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
}

const CHANGELOG: &str = "CHANGELOG.md";
const MANIFEST: &str = "Cargo.toml";
const UNRELEASED: &str = "## [Unreleased]\n";
/// What registries get. Each needs those before it.
const PUBLISHED: [&str; 4] = ["nccl-otf2-regular-files", "otf2-sys", "otf2", "cupti-sys"];

pub(crate) fn run(args: &Args) -> Result<()> {
    let new = args.version.as_str();
    let read = |name: &str| std::fs::read_to_string(cargo::root().join(name)).with_context(|| format!("read {name}"));
    let (manifest, changelog) = (read(MANIFEST)?, read(CHANGELOG)?);
    let old = between(&manifest, "[workspace.package]\nversion = \"", "\"").context("Cargo.toml has no version")?;
    ensure!(numbers(new)? > numbers(old)?, "{new} is not higher than {old}");
    let date = process::output(Command::new("date").args(["-u", "+%F"]), "date")?;
    let manifest = manifest.replace(&format!("version = \"{old}\""), &format!("version = \"{new}\""));
    let (changelog, notes) = closed(&changelog, new, date.trim())?;

    heading(&format!("{old} becomes {new}"));
    println!("   {MANIFEST}, Cargo.lock: version {new}");
    println!("   {CHANGELOG}: {} lines under \"[{new}] - {}\"", notes.lines().count(), date.trim());
    println!("   tag: v{new}");
    heading("crates");
    let mut package = cargo::command("package");
    package.args(["--no-verify", "--allow-dirty", "--quiet"]);
    for name in PUBLISHED {
        package.args(["--package", name]);
    }
    process::run(&mut package)?;
    heading("artefacts");
    let made = cargo::target()?.join("packages");
    match cache::list(&made) {
        Ok(files) => files.iter().for_each(|file| println!("   {}", file.display())),
        Err(_) => println!("   none yet: cargo xtask dist makes them in {}", made.display()),
    }
    let changed = process::output(&mut git(&["status", "--porcelain"]), "git status")?;
    if args.dry_run {
        println!("\nnothing was changed{}", if changed.is_empty() { "" } else { "; the tree is not clean" });
        return Ok(());
    }
    ensure!(changed.is_empty(), "the tree is not clean: commit or remove what git status shows");
    cache::write(&cargo::root().join(MANIFEST), manifest)?;
    cache::write(&cargo::root().join(CHANGELOG), changelog)?;
    process::run(Command::new("cargo").current_dir(cargo::root()).args(["update", "--workspace", "--offline"]))?;
    process::run(git(&["commit", "--quiet", "--all", "--message"]).arg(format!("release: Version {new}")))?;
    process::run(git(&["tag", "--annotate", "--message"]).arg(format!("Version {new}")).arg(format!("v{new}")))?;
    println!("\npush the commit and the tag; then cargo publish -p {}", PUBLISHED.join(" -p "));
    Ok(())
}

fn git(words: &[&str]) -> Command {
    let mut git = Command::new("git");
    git.current_dir(cargo::root()).args(words);
    git
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    Some(rest.split_once(after)?.0)
}

fn numbers(version: &str) -> Result<[u32; 3]> {
    let parts: Vec<u32> = version.split('.').map_while(|part| part.parse().ok()).collect();
    match parts[..] {
        [major, minor, bugfix] if version.split('.').count() == 3 => Ok([major, minor, bugfix]),
        _ => bail!("{version} is not a version such as 1.0.0"),
    }
}

/// The changelog with the unreleased entry under the version, and that entry.
fn closed(changelog: &str, version: &str, date: &str) -> Result<(String, String)> {
    let (head, rest) = changelog.split_once(UNRELEASED).context("CHANGELOG.md has no ## [Unreleased]")?;
    let end = rest.find("\n## [").unwrap_or(rest.len());
    let (notes, earlier) = rest.split_at(end);
    let notes: Vec<&str> = notes.lines().filter(|line| !line.starts_with("To become ")).collect();
    let notes = notes.join("\n").trim().to_owned();
    ensure!(notes.contains("\n- "), "CHANGELOG.md says nothing under [Unreleased]");
    Ok((format!("{head}{UNRELEASED}\n## [{version}] - {date}\n\n{notes}\n{earlier}"), notes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_gets_version_and_date_and_a_new_one_begins() {
        let log =
            "# Changelog\n\n## [Unreleased]\n\nTo become 1.0.0.\n\n### Added\n\n- A verb.\n\n## [0.9.0] - 2025-01-01\n";
        let (log, notes) = closed(log, "1.0.0", "2026-01-02").expect("an entry");
        assert_eq!(notes, "### Added\n\n- A verb.");
        let expected =
            "# Changelog\n\n## [Unreleased]\n\n## [1.0.0] - 2026-01-02\n\n### Added\n\n- A verb.\n\n## [0.9.0]";
        assert!(log.starts_with(expected), "{log}");
        assert!(closed("## [Unreleased]\n\n## [0.9.0]\n", "1.0.0", "").is_err());
        assert!(numbers("1.10.0").unwrap() > numbers("1.9.9").unwrap());
        assert!(numbers("1.0").is_err() && numbers("v1.0.0").is_err());
    }
}
