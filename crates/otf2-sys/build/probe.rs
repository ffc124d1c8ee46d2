//! Finds libotf2 in three ways, each with its own reason if it fails.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The environment variables that affect the result.
pub(crate) const VARIABLES: &[&str] = &["OTF2_DIR", "OTF2_CONFIG", "OTF2_STATIC", "PATH", "PKG_CONFIG_PATH"];

/// The oldest release whose functions have the signatures bound here.
pub(crate) const OLDEST_MAJOR: u32 = 3;

pub(crate) type Version = (u32, u32, u32);

/// The user's request.
pub(crate) struct Request {
    pub(crate) directory: Option<PathBuf>,
    pub(crate) config: OsString,
    pub(crate) statically: bool,
}

impl Request {
    pub(crate) fn from_environment() -> Self {
        let set = |name| env::var_os(name).filter(|value| !value.is_empty());
        Self {
            directory: set("OTF2_DIR").map(PathBuf::from),
            config: set("OTF2_CONFIG").unwrap_or_else(|| "otf2-config".into()),
            statically: set("OTF2_STATIC").is_some_and(|value| value != "0"),
        }
    }
}

/// A usable libotf2.
pub(crate) struct Installation {
    pub(crate) way: &'static str,
    pub(crate) version: Version,
    pub(crate) include_directories: Vec<PathBuf>,
    pub(crate) library_directories: Vec<PathBuf>,
    pub(crate) library: String,
    pub(crate) statically: bool,
}

impl Installation {
    pub(crate) fn link_lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self
            .library_directories
            .iter()
            .map(|path| format!("cargo::rustc-link-search=native={}", path.display()))
            .collect();
        let kind = if self.statically { "static" } else { "dylib" };
        lines.push(format!("cargo::rustc-link-lib={kind}={}", self.library));
        if self.statically {
            lines.push("cargo::rustc-link-lib=dylib=m".to_owned());
        }
        lines
    }

    /// The metadata that dependent crates read as `DEP_OTF2_*`.
    pub(crate) fn metadata(&self) -> Vec<(&'static str, String)> {
        let (major, minor, bugfix) = self.version;
        let first = |paths: &[PathBuf]| paths.first().map(|path| path.display().to_string());
        vec![
            ("version", format!("{major}.{minor}.{bugfix}")),
            ("include", first(&self.include_directories).unwrap_or_default()),
            ("libdir", first(&self.library_directories).unwrap_or_default()),
            ("static", u8::from(self.statically).to_string()),
            ("found_by", self.way.to_owned()),
        ]
    }
}

/// The reasons why no libotf2 is usable, one per way.
#[derive(Debug)]
pub(crate) struct Reasons {
    pub(crate) tried: Vec<(&'static str, String)>,
    pub(crate) statically: bool,
}

impl fmt::Display for Reasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "No usable libotf2 (3.0 or newer) was found. Tried, in this order:")?;
        for (number, (way, reason)) in self.tried.iter().enumerate() {
            writeln!(f, "  {}. {way}: {reason}", number + 1)?;
        }
        writeln!(f, "What to do: apt-get install libotf2-trace-dev otf2-tools, or set OTF2_DIR to the prefix of an")?;
        write!(f, "installation, or OTF2_CONFIG to its otf2-config.")?;
        if self.statically {
            write!(f, " OTF2_STATIC=1 asks for libotf2.a; OTF2_STATIC=0 links the shared library.")?;
        }
        Ok(())
    }
}

type Way = fn(&Request) -> Result<Installation, String>;

/// Tries all ways in order; the first usable result wins.
pub(crate) fn find(request: &Request) -> Result<Installation, Reasons> {
    let ways: [(&'static str, Way); 3] =
        [("OTF2_DIR", by_directory), ("otf2-config", by_config), ("pkg-config", by_pkg_config)];
    let mut tried = Vec::new();
    for (way, search) in ways {
        match search(request).and_then(|found| checked(found, request)) {
            Ok(found) => return Ok(found),
            Err(reason) => tried.push((way, reason)),
        }
        // An explicit directory is binding: do not fall back to another libotf2.
        if way == "OTF2_DIR" && request.directory.is_some() {
            break;
        }
    }
    Err(Reasons { tried, statically: request.statically })
}

fn by_directory(request: &Request) -> Result<Installation, String> {
    let prefix = request.directory.as_ref().ok_or("not set")?;
    let include = prefix.join("include");
    let library_directories: Vec<PathBuf> =
        ["lib64", "lib"].iter().map(|name| prefix.join(name)).filter(|path| path.is_dir()).collect();
    if library_directories.is_empty() {
        return Err(format!("{} has neither lib nor lib64", prefix.display()));
    }
    Ok(Installation {
        way: "OTF2_DIR",
        version: header_version(std::slice::from_ref(&include))?,
        include_directories: vec![include],
        library_directories,
        library: "otf2".to_owned(),
        statically: request.statically,
    })
}

fn by_config(request: &Request) -> Result<Installation, String> {
    let query = |argument: &str| run(&request.config, argument);
    let config_version = parse_version(&query("--version")?)
        .ok_or_else(|| format!("{} --version names no version", request.config.display()))?;
    let include_directories = flags(&query("--cflags")?, "-I");
    let library_directories = flags(&query("--ldflags")?, "-L");
    let libraries = flags(&query("--libs")?, "-l");
    let library = libraries
        .iter()
        .map(|path| path.display().to_string())
        .find(|name| name.contains("otf2") || name.contains("trace-format2"))
        .ok_or("--libs names no libotf2")?;
    let version = header_version(&include_directories)?;
    if version != config_version {
        return Err(format!(
            "{} says {config_version:?} but the header says {version:?}: two installations are mixed",
            request.config.display()
        ));
    }
    Ok(Installation {
        way: "otf2-config",
        version,
        include_directories,
        library_directories,
        library,
        statically: request.statically,
    })
}

fn by_pkg_config(request: &Request) -> Result<Installation, String> {
    let library = pkg_config::Config::new()
        .cargo_metadata(false)
        .env_metadata(true)
        .print_system_libs(true)
        .print_system_cflags(true)
        .atleast_version("3.0")
        .probe("otf2")
        .map_err(|error| first_line(&error.to_string()))?;
    let version = header_version(&library.include_paths)?;
    if parse_version(&library.version) != Some(version) {
        return Err(format!("otf2.pc says {} but the header says {version:?}", library.version));
    }
    let name = library
        .libs
        .iter()
        .find(|name| name.contains("otf2") || name.contains("trace-format2"))
        .ok_or("otf2.pc names no libotf2")?;
    Ok(Installation {
        way: "pkg-config",
        version,
        library: name.clone(),
        include_directories: library.include_paths,
        library_directories: library.link_paths,
        statically: request.statically,
    })
}

/// Detects old versions and missing libraries here rather than in the linker minutes later.
fn checked(found: Installation, request: &Request) -> Result<Installation, String> {
    let (major, minor, bugfix) = found.version;
    if major < OLDEST_MAJOR {
        return Err(format!("version {major}.{minor}.{bugfix} is too old, 3.0 is the oldest that works"));
    }
    let file = format!("lib{}.{}", found.library, if request.statically { "a" } else { "so" });
    if !found.library_directories.iter().any(|directory| directory.join(&file).is_file()) {
        let directories: Vec<String> =
            found.library_directories.iter().map(|path| path.display().to_string()).collect();
        return Err(format!("there is no {file} in {}", directories.join(", ")));
    }
    Ok(found)
}

/// The version in the first `otf2/OTF2_GeneralDefinitions.h` on the include path.
pub(crate) fn header_version(include_directories: &[PathBuf]) -> Result<Version, String> {
    let system = [PathBuf::from("/usr/include")];
    let header = include_directories
        .iter()
        .chain(&system)
        .map(|directory| directory.join("otf2/OTF2_GeneralDefinitions.h"))
        .find(|path| path.is_file())
        .ok_or_else(|| format!("no otf2/OTF2_GeneralDefinitions.h in {include_directories:?}"))?;
    let text = fs::read_to_string(&header).map_err(|error| format!("{}: {error}", header.display()))?;
    let part = |name| macro_value(&text, name).ok_or_else(|| unreadable(&header, name));
    Ok((part("OTF2_VERSION_MAJOR")?, part("OTF2_VERSION_MINOR")?, part("OTF2_VERSION_BUGFIX")?))
}

fn unreadable(header: &Path, name: &str) -> String {
    format!("{} does not define {name}", header.display())
}

fn macro_value(text: &str, name: &str) -> Option<u32> {
    text.lines()
        .find_map(|line| {
            let mut words = line.split_whitespace();
            (words.next() == Some("#define") && words.next() == Some(name)).then(|| words.next())?
        })?
        .parse()
        .ok()
}

/// The first `a.b.c` in a text such as "otf2-config: version 3.0.2".
pub(crate) fn parse_version(text: &str) -> Option<Version> {
    text.split_whitespace().find_map(|word| {
        let mut parts = word.splitn(3, '.');
        let mut number = || {
            let digits: String = parts.next()?.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().ok()
        };
        Some((number()?, number()?, number().unwrap_or(0)))
    })
}

fn flags(text: &str, prefix: &str) -> Vec<PathBuf> {
    text.split_whitespace().filter_map(|word| word.strip_prefix(prefix)).map(PathBuf::from).collect()
}

fn run(program: &OsString, argument: &str) -> Result<String, String> {
    let output = Command::new(program)
        .arg(argument)
        .output()
        .map_err(|error| format!("cannot run {}: {error}", program.display()))?;
    if !output.status.success() {
        return Err(format!("{} {argument} failed: {}", program.display(), output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn first_line(text: &str) -> String {
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or("failed").trim().to_owned()
}
