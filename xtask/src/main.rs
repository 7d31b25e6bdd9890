// SPDX-License-Identifier: MIT OR Apache-2.0
//! Development chores: `cargo xtask tidy`, `cargo xtask book PROGRAM`, `cargo xtask conformance`, `cargo xtask structure`, `cargo xtask prose`,
//! `cargo xtask new-element KIND Name`, `cargo xtask elements`, `cargo xtask fuzz-smoke [SECONDS]`,
//! `cargo xtask audit`, `cargo xtask sbom`, `cargo xtask miri [FILTER]`, `cargo xtask models [FILTER]`,
//! `cargo xtask instructions [DIRECTORY]`.

mod audit;
mod book;
mod capabilities;
mod conformance;
mod instructions;
mod metadata;
mod new_element;
#[cfg(test)]
mod packaging;
mod prose;
mod sbom;
mod structure;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let root = root();
    match args.next().as_deref() {
        Some("tidy") => tidy::main(&root),
        Some("audit") => audit::main(&root),
        Some("sbom") => sbom::main(&root),
        Some("book") => book::main(&root, &args.next().unwrap_or_else(|| "junctor".into())),
        Some("conformance") => conformance::main(&root),
        Some("new-element") => new_element::main(&root, args.next(), args.next()),
        Some("structure") => {
            structure::main(&root);
            ExitCode::SUCCESS
        }
        Some("prose") => {
            prose::main(&root);
            ExitCode::SUCCESS
        }
        Some("elements") => run(Command::new("cargo").args(["run", "-q", "-p", "junctor", "--", "elements"])),
        Some("fuzz-smoke") => fuzz_smoke(&root, &args.next().unwrap_or_else(|| "10".into())),
        Some("miri") => miri(&root, args.next()),
        Some("instructions") => {
            instructions::main(&root, &args.next().unwrap_or_else(|| "target/instructions".into()))
        }
        Some("models") => models(&root, args.next().as_deref()),
        _ => {
            eprintln!(
                "usage: cargo xtask tidy | audit | sbom | book PROGRAM | conformance | structure | prose | new-element KIND Name | elements | fuzz-smoke [SECONDS] | miri [FILTER] | models [FILTER] | instructions [DIRECTORY]"
            );
            ExitCode::from(2)
        }
    }
}

/// The repository's root, one level above this crate. Cargo says where the crate is that it runs, which another checkout may have built.
fn root() -> PathBuf {
    let this = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let this = this.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    this.parent().expect("xtask lies in the repository").to_owned()
}

fn run(command: &mut Command) -> ExitCode {
    match command.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("{:?}: {why}", command.get_program());
            ExitCode::FAILURE
        }
    }
}

/// Runs every fuzz target for a while. Needs a nightly toolchain and cargo-fuzz.
fn fuzz_smoke(root: &Path, seconds: &str) -> ExitCode {
    let mut targets: Vec<_> = std::fs::read_dir(root.join("fuzz/fuzz_targets"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|e| e.path().file_stem().map(|n| n.to_string_lossy().into_owned()))
        .collect();
    targets.sort();
    for target in targets {
        println!("fuzzing {target} for {seconds} s");
        let limit = format!("-max_total_time={seconds}");
        let status = run(Command::new("cargo")
            .args(["+nightly", "fuzz", "run", &target, "--", &limit])
            .current_dir(root));
        if status != ExitCode::SUCCESS {
            return status;
        }
    }
    ExitCode::SUCCESS
}

/// Runs the models of lock-free code, every interleaving of them, by loom. They are built apart, for the whole build has to be for loom.
fn models(root: &Path, filter: Option<&str>) -> ExitCode {
    for package in ["junctor-sync", "junctor-tables", "junctor-icc", "junctor-esp"] {
        let status = run(Command::new("cargo")
            .args(["test", "--quiet", "--release", "--lib", "-p", package, "models"])
            .args(["--"].iter().chain(&filter))
            .current_dir(root)
            .env("RUSTFLAGS", "--cfg loom")
            .env("CARGO_PROFILE_RELEASE_LTO", "off")
            .env("CARGO_TARGET_DIR", root.join("target/models")));
        if status != ExitCode::SUCCESS {
            return status;
        }
    }
    ExitCode::SUCCESS
}

/// Runs the unit tests of the crates whose unsafe code touches no device under Miri, which finds undefined behaviour,
/// data races and leaks. Says so and succeeds where Miri is not installed.
fn miri(root: &Path, filter: Option<String>) -> ExitCode {
    let installed = Command::new("cargo").args(["+nightly", "miri", "--version"]).output();
    if !installed.is_ok_and(|o| o.status.success()) {
        println!("skipped: no Miri; rustup component add --toolchain nightly miri rust-src");
        return ExitCode::SUCCESS;
    }
    for package in ["junctor-sync", "junctor-packet", "junctor-icc", "junctor-erase"] {
        let status = run(Command::new("cargo")
            .args(["+nightly", "miri", "test", "--lib", "-p", package])
            .args(&filter)
            .current_dir(root)
            .env("MIRIFLAGS", "-Zmiri-disable-isolation")
            .env("CARGO_TARGET_DIR", root.join("target/miri")));
        if status != ExitCode::SUCCESS {
            return status;
        }
    }
    ExitCode::SUCCESS
}
