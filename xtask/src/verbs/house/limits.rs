//! The limits of the code base: all of them in one table.
//!
//! `over` says how many things may exceed a limit while the code is being brought below it: lower it whenever `cargo
//! xtask house` says so, never raise it. Anything that exceeds a limit permanently is listed in [`EXCEPTIONS`] with a
//! reason; an exception that is no longer needed is an error.

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Rule {
    /// Modules that import each other in a cycle.
    Circles,
    /// Imports that the table in `docs/DESIGN.md` does not allow.
    Imports,
    FileLines,
    FunctionLines,
    FolderFiles,
    RoomLines,
    /// All lines of the product, of tests, of doubles, of xtask.
    CategoryLines,
    PublicItems,
    MarkdownColumns,
    CommentColumns,
}

pub(super) struct Limit {
    pub(super) rule: Rule,
    pub(super) what: &'static str,
    pub(super) most: usize,
    /// How many things may exceed the limit for now, in addition to the exceptions.
    pub(super) over: usize,
}

/// Something that may exceed a limit permanently, or that has a tighter limit.
pub(super) struct Exception {
    pub(super) rule: Rule,
    /// As the report names it: a file, `src/x.rs::function`, a folder, a room, a package.
    pub(super) what: &'static str,
    pub(super) most: usize,
    pub(super) reason: &'static str,
}

const fn limit(rule: Rule, what: &'static str, most: usize, over: usize) -> Limit {
    Limit { rule, what, most, over }
}

pub(super) const LIMITS: &[Limit] = &[
    limit(Rule::Circles, "modules in import circles", 0, 0),
    limit(Rule::Imports, "imports that docs/DESIGN.md lacks", 0, 0),
    limit(Rule::FileLines, "lines in a file", 400, 0),
    limit(Rule::FunctionLines, "lines in a function", 80, 1),
    limit(Rule::FolderFiles, "files in a folder", 12, 4),
    limit(Rule::RoomLines, "production lines in a room", 6000, 0),
    limit(Rule::CategoryLines, "lines in a category", 100_000, 0),
    limit(Rule::PublicItems, "public items of a crate", 100, 1),
    limit(Rule::MarkdownColumns, "columns of Markdown", 120, 0),
    limit(Rule::CommentColumns, "columns of comment", 120, 0),
];

/// Generated files: nothing is measured in them.
pub(super) const GENERATED: &[&str] = &["src/abi/bindings.rs", "crates/otf2-sys/bindings/otf2_3_0.rs"];

const fn category(what: &'static str, most: usize) -> Exception {
    Exception { rule: Rule::CategoryLines, what, most, reason: "the sum is to fall, not to grow" }
}

pub(super) const EXCEPTIONS: &[Exception] = &[
    // 87 166 before ranges (NVTX) were recorded, 94 500 before topology, causes of lateness and critical paths,
    // 101 805 before every verb named the journals that it cannot read, 101 859 before jobs in one directory were told
    // apart by their communicators and details named every field of an event, 101 937 before the plugin kept to what is
    // the program's (signals, descriptors, cancellation, stacks), and readers to what files of others may take.
    category("product", 103_800),
    category("tests", 44_300),
    category("doubles", 13_900),
    category("xtask", 6_300),
    Exception { rule: Rule::RoomLines, what: "crates/journal", most: 7_050, reason: "a format and its two sides" },
    Exception { rule: Rule::PublicItems, what: "trace", most: 20, reason: "no module outside of it knows its insides" },
    Exception {
        rule: Rule::RoomLines,
        what: "crates/analysis",
        most: 7_650,
        reason: "what is derived shares tables, instances and budgets, which a second crate would have to export",
    },
];
