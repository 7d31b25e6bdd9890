// SPDX-License-Identifier: MIT OR Apache-2.0
//! Golden tests: every `*.test` file below `tests/golden` in the repository is a script with its input files and the
//! output it must have. See `tests/golden/README.md` for the format.
//!
//! Each case runs with 1, 2, 3 and 4 workers and must give the same output: how many workers there are is no part of what a configuration means. The
//! scripts say nothing of it; `junctor` and `click` are wrappers that do. Once more each runs as a chaos test: with 2 to 4 workers between which
//! tasks are moved at random all the time. That, too, must change nothing. A case that runs no router, or says itself how many workers it wants, runs
//! once. In each run all packets must be accounted for, element by element (`engine::account`).
//!
//! `GOLDEN=part cargo test -p junctor --test golden` runs the cases whose path holds `part`. The moves of a case follow from a
//! seed, which a failure names and `GOLDEN_SEED=number` sets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// A case as written.
#[derive(Debug, Default)]
struct Case {
    script: String,
    files: BTreeMap<String, Vec<u8>>,
    expect: Vec<(String, String)>,
}

fn parse(text: &str) -> Result<Case, String> {
    let mut case = Case::default();
    let mut sections: Vec<(String, String)> = Vec::new();
    for line in text.split_inclusive('\n') {
        match line.strip_prefix('%') {
            Some(head) if head.starts_with(|c: char| c.is_ascii_lowercase()) => {
                sections.push((head.trim().to_owned(), String::new()));
            }
            _ => match sections.last_mut() {
                // A doubled percent sign stands for one at the start of a line.
                Some((_, body)) => body.push_str(line.strip_prefix("%%").map_or(line, |_| &line[1..])),
                None => return Err("text before the first section".into()),
            },
        }
    }
    for (head, body) in sections {
        let (kind, name) = head.split_once(' ').unwrap_or((&head, ""));
        match kind {
            "info" => {}
            "script" => case.script = body,
            "file" => drop(case.files.insert(name.trim().to_owned(), body.into_bytes())),
            "hex" => drop(case.files.insert(name.trim().to_owned(), unhex(&body)?)),
            "expect" => case.expect.push((name.trim().to_owned(), body)),
            other => return Err(format!("unknown section %{other}")),
        }
    }
    if case.script.is_empty() || case.expect.is_empty() {
        return Err("a case needs %script and %expect".into());
    }
    Ok(case)
}

/// Bytes of a binary file, as pairs of hexadecimal digits.
fn unhex(text: &str) -> Result<Vec<u8>, String> {
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let pair = |p: &[u8]| std::str::from_utf8(p).ok().and_then(|p| u8::from_str_radix(p, 16).ok());
    digits.chunks(2).map(|p| pair(p).ok_or_else(|| "bad %hex section".to_owned())).collect()
}

/// Whether a line matches an expected one, in which `{{...}}` holds a regular expression.
fn line_matches(expected: &str, line: &str) -> bool {
    if !expected.contains("{{") {
        return expected.trim_end() == line.trim_end();
    }
    let mut pattern = String::from("^");
    let mut rest = expected.trim_end();
    while let Some((before, after)) = rest.split_once("{{") {
        let (inside, after) = after.split_once("}}").unwrap_or((after, ""));
        pattern += &format!("{}(?:{inside})", regex::escape(before));
        rest = after;
    }
    pattern += &format!("{}$", regex::escape(rest));
    regex::Regex::new(&pattern).is_ok_and(|r| r.is_match(line.trim_end()))
}

/// The first difference between what was expected and what came.
fn difference(expected: &str, got: &str) -> Option<String> {
    let (want, have): (Vec<_>, Vec<_>) = (expected.lines().collect(), got.lines().collect());
    // Blank lines at the end of a section separate it from the next.
    let trim = |mut lines: Vec<&str>| {
        while lines.last().is_some_and(|l| l.trim().is_empty()) {
            lines.pop();
        }
        lines.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let (want, have) = (trim(want), trim(have));
    let same = want.len() == have.len() && want.iter().zip(&have).all(|(w, h)| line_matches(w, h));
    if same {
        return None;
    }
    let at =
        want.iter().zip(&have).position(|(w, h)| !line_matches(w, h)).unwrap_or(want.len().min(have.len()));
    let show = |lines: &[String]| lines.get(at).map_or("(nothing)".into(), |l| format!("'{l}'"));
    Some(format!(
        "line {}: expected {}, got {}\n--- all of it ---\n{got}---",
        at + 1,
        show(&want),
        show(&have)
    ))
}

/// Workers that each case runs with.
const WORKERS: [usize; 4] = [1, 2, 3, 4];

/// Runs a case with all numbers of workers and then with tasks moved at random, or once if it runs no router. Returns how many packets were accounted for.
fn run_all(case: &Case, bins: &[PathBuf], seed: u64) -> Result<u64, String> {
    let mut moved = 0;
    for (workers, bin) in WORKERS.iter().zip(bins) {
        let mark = tempfile::tempdir().map_err(|e| e.to_string())?;
        let mark = mark.path().join("ran");
        moved += run(case, bin, &mark, None).map_err(|why| format!("with {workers} workers, {why}"))?;
        if !mark.exists() {
            return Ok(moved);
        }
    }
    // A single worker has nobody to move anything to.
    let at = 1 + seed as usize % (WORKERS.len() - 1);
    let mark = tempfile::tempdir().map_err(|e| e.to_string())?;
    let chaos = run(case, &bins[at], &mark.path().join("ran"), Some(seed)).map_err(|why| {
        format!("with {} workers and tasks that are moved (GOLDEN_SEED={seed}), {why}", WORKERS[at])
    })?;
    Ok(moved + chaos)
}

/// The seed of a case's moves: its own, so that the cases do not all move alike, unless one is given.
fn seed(name: &str) -> u64 {
    let given = std::env::var("GOLDEN_SEED").ok().and_then(|text| text.parse().ok());
    // FNV-1a.
    let hash = |h: u64, byte: u8| (h ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    given.unwrap_or_else(|| name.bytes().fold(0xcbf2_9ce4_8422_2325, hash) >> 32)
}

/// A directory with both names of the program, so that scripts may call either: wrappers that run routers with so many
/// workers, and leave a mark that they did.
fn wrappers(dir: &Path, workers: usize) -> std::io::Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let (bin, real) = (dir.join(workers.to_string()), dir.join(format!("real{workers}")));
    std::fs::create_dir(&bin)?;
    std::fs::create_dir(&real)?;
    let usable: Vec<usize> = core_affinity::get_core_ids().unwrap_or_default().iter().map(|c| c.id).collect();
    // A list of cores, because a number above that of the cores is worth a line on standard error.
    let list: Vec<String> = usable.iter().cycle().take(workers).map(usize::to_string).collect();
    let threads = if workers == 1 { "1".to_owned() } else { list.join(",") };
    for name in ["junctor", "click"] {
        let real = real.join(name);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_junctor"), &real)?;
        let real = real.display();
        // What is about workers says `-j` itself, and runs as it says.
        let account = "--account \"$GOLDEN_RAN.account\"";
        let own = "case \" $* \" in *\" -j \"*) exec";
        let ran = format!(": > \"$GOLDEN_RAN\"; exec {real}");
        let moved = "${GOLDEN_CHAOS:+--chaos $GOLDEN_CHAOS}";
        // A machine that does something else for seconds is no part of a case.
        let patient = "--watchdog 5min";
        let script = match name {
            "click" => {
                format!(
                    "#!/bin/sh\n{own} {real} \"$@\";; esac\n{ran} -j {threads} {moved} {account} \"$@\"\n"
                )
            }
            _ => format!(
                "#!/bin/sh\n{own} {real} \"$@\";; esac\n\
                 if [ \"$1\" = run ]; then shift; {ran} run -j {threads} {patient} {moved} {account} \"$@\"; fi\nexec {real} \"$@\"\n"
            ),
        };
        std::fs::write(bin.join(name), script)?;
        std::fs::set_permissions(bin.join(name), std::fs::Permissions::from_mode(0o755))?;
    }
    Ok(bin)
}

fn run(case: &Case, bin: &Path, mark: &Path, chaos: Option<u64>) -> Result<u64, String> {
    let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
    for (name, content) in &case.files {
        std::fs::write(dir.path().join(name), content).map_err(|e| format!("{name}: {e}"))?;
    }
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new("timeout")
        .args(["180", "sh", "-c", &case.script])
        .current_dir(dir.path())
        .env("PATH", path)
        .env("GOLDEN_RAN", mark)
        .env("GOLDEN_CHAOS", chaos.map_or(String::new(), |seed| seed.to_string()))
        .env("LC_ALL", "C")
        .env_remove("CLICKPATH")
        .stdin(Stdio::null())
        .output()
        .map_err(|e| e.to_string())?;
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    for (name, expected) in &case.expect {
        let got = match name.as_str() {
            "stdout" => stdout.to_string(),
            "stderr" => stderr.to_string(),
            "status" => format!("{}\n", output.status.code().unwrap_or(-1)),
            file => std::fs::read(dir.path().join(file))
                .map(|b| String::from_utf8_lossy(&b).into_owned())
                .map_err(|e| format!("{file}: {e}\nstderr: {stderr}"))?,
        };
        if let Some(difference) = difference(expected, &got) {
            return Err(format!("{name}, {difference}\nstderr: {stderr}"));
        }
    }
    accounted(mark)
}

/// What the case's routers said of their packets that are not accounted for, if anything; else how many moved between elements.
fn accounted(mark: &Path) -> Result<u64, String> {
    let accounts = std::fs::read_to_string(mark.with_extension("account")).unwrap_or_default();
    let known = |line: &&str| line.starts_with("accounted for ") || *line == "no account";
    let wrong: Vec<&str> = accounts.lines().filter(|line| !known(line)).collect();
    if !wrong.is_empty() {
        return Err(format!("packets are not accounted for:\n{}", wrong.join("\n")));
    }
    Ok(accounts.lines().filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum())
}

fn cases(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            cases(&path, found);
        } else if path.extension().is_some_and(|x| x == "test") {
            found.push(path);
        }
    }
}

#[test]
fn golden_cases() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let mut found = Vec::new();
    cases(&root, &mut found);
    found.sort();
    if let Ok(part) = std::env::var("GOLDEN") {
        found.retain(|p| p.to_string_lossy().contains(&part));
    }
    assert!(!found.is_empty(), "no cases below {}", root.display());

    let dir = tempfile::tempdir().expect("temporary directory");
    let bins: Vec<PathBuf> = WORKERS.iter().map(|n| wrappers(dir.path(), *n).expect("wrappers")).collect();
    let (queue, failures, moved) = (Mutex::new(found.iter()), Mutex::new(Vec::new()), Mutex::new(0));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                loop {
                    let Some(path) = queue.lock().unwrap().next() else { break };
                    let text = std::fs::read_to_string(path).unwrap_or_default();
                    let name = path.strip_prefix(&root).unwrap_or(path).display().to_string();
                    match parse(&text).and_then(|case| run_all(&case, &bins, seed(&name))) {
                        Ok(packets) => *moved.lock().unwrap() += packets,
                        Err(why) => failures.lock().unwrap().push(format!("{name}: {why}")),
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(
        failures.is_empty(),
        "{} of {} cases failed\n\n{}",
        failures.len(),
        found.len(),
        failures.join("\n\n")
    );
    // Had nobody counted, nothing would have been wrong.
    let moved = moved.into_inner().unwrap();
    assert!(moved > found.len() as u64 || std::env::var("GOLDEN").is_ok(), "{moved} packets accounted for");
    println!(
        "{} golden cases, each with {WORKERS:?} workers, and with tasks moved at random; {moved} times a packet was accounted for",
        found.len()
    );
}

#[test]
fn the_runner_notices_differences() {
    assert_eq!(difference("a\nb{{[0-9]+}}\n\n", "a\nb17\n"), None);
    assert!(difference("a\n", "a\nb\n").is_some());
    assert!(difference("a{{x}}\n", "ay\n").is_some());
    assert!(difference("", "a\n").is_some());
    assert!(parse("%script\nx\n").is_err() && parse("%what\n").is_err() && parse("x\n").is_err());
}
