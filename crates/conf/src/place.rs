// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where tasks run, as the command line says: `--place in0=0 --place out0=1,2`, and a file of such lines.

use std::path::Path;

/// A wish: an element and the workers for its tasks, numbered from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskPlacement {
    element: String,
    workers: Vec<usize>,
}

impl TaskPlacement {
    /// These workers for the tasks of this element.
    pub fn new(element: impl Into<String>, workers: Vec<usize>) -> TaskPlacement {
        TaskPlacement { element: element.into(), workers }
    }
}

/// The workers of a router, as the user thinks of them.
#[derive(Clone, Copy, Debug)]
pub struct Workers<'a> {
    /// How many there are.
    pub count: usize,
    /// The core of each, where the user listed them; else workers go by their number.
    pub cores: &'a [usize],
}

impl Workers<'_> {
    /// The worker that is meant by a number.
    fn find(self, number: usize) -> Result<usize, String> {
        if self.cores.is_empty() {
            let last = self.count - 1;
            let missing = || format!("there is no worker {number}; the last one is {last} (see --threads)");
            return if number < self.count { Ok(number) } else { Err(missing()) };
        }
        let worker = self.cores.iter().position(|core| *core == number);
        worker.ok_or_else(|| {
            let cores: Vec<String> = self.cores.iter().map(usize::to_string).collect();
            format!("no worker runs on core {number}; they run on {}", cores.join(", "))
        })
    }
}

/// Reads the wishes of `--placement` and `--place`, of which the later win.
///
/// # Errors
/// The first thing that is wrong, with its place.
pub fn read(
    options: &[String],
    file: Option<&Path>,
    workers: Workers<'_>,
) -> Result<Vec<TaskPlacement>, String> {
    let mut places = Vec::new();
    if let Some(path) = file {
        let name = path.display();
        let text = std::fs::read_to_string(path).map_err(|e| format!("{name}: {e}"))?;
        for (n, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                places.push(one(line, workers).map_err(|why| format!("{name}:{}: {why}", n + 1))?);
            }
        }
    }
    for option in options {
        places.push(one(option, workers).map_err(|why| format!("--place {option}: {why}"))?);
    }
    Ok(places)
}

/// `ELEMENT=CORE[,CORE...]`, with spaces around as one likes, or `ELEMENT CORE...`.
fn one(text: &str, workers: Workers<'_>) -> Result<TaskPlacement, String> {
    let expected =
        || format!("'{text}' should be ELEMENT=CORE, or ELEMENT=CORE,CORE for an element with several tasks");
    let (element, numbers) =
        text.split_once('=').or_else(|| text.trim().split_once(char::is_whitespace)).ok_or_else(expected)?;
    let numbers = numbers.split([',', ' ', '\t']).filter(|n| !n.is_empty());
    let numbers: Option<Vec<usize>> = numbers.map(|n| n.parse().ok()).collect();
    let (element, numbers) = (element.trim(), numbers.filter(|n| !n.is_empty()).ok_or_else(expected)?);
    if element.is_empty() || element.contains([' ', '\t', '(', ')', ',']) {
        return Err(expected());
    }
    let mut found = Vec::new();
    for number in numbers {
        let worker = workers.find(number)?;
        if found.contains(&worker) {
            return Err(format!("'{element}' is placed on {number} twice"));
        }
        found.push(worker);
    }
    Ok(TaskPlacement { element: element.to_owned(), workers: found })
}

/// Adds the wishes to a configuration: an element that says them, after all others.
pub fn add(graph: &mut lang::Graph, places: &[TaskPlacement]) {
    if places.is_empty() {
        return;
    }
    let each = places.iter().map(|place| {
        let workers: Vec<String> = place.workers.iter().map(usize::to_string).collect();
        format!("{} {}", place.element, workers.join(" "))
    });
    let span = lang::Span { file: 0, start: 0, end: 0 };
    graph.elements.push(lang::Element {
        name: "--place".into(),
        class: "StaticThreadSched".into(),
        config: each.chain(["STRICT true".to_owned()]).collect::<Vec<_>>().join(", ").into(),
        span,
        class_span: span,
        config_span: None,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, cores: &[usize], want: Result<(&str, &[usize]), &str>) {
        let count = if cores.is_empty() { 3 } else { cores.len() };
        let found = one(text, Workers { count, cores });
        let want =
            want.map(|(element, workers)| TaskPlacement { element: element.into(), workers: workers.into() });
        match (found, want) {
            (Err(why), Err(part)) => assert!(why.contains(part), "{text}: {why}"),
            (found, want) => assert_eq!(found, want.map_err(str::to_owned), "{text}"),
        }
    }

    #[test]
    fn places_are_read() {
        check("in0=1", &[], Ok(("in0", &[1])));
        check("r/in0 = 2, 0", &[], Ok(("r/in0", &[2, 0])));
        check("FromDevice@1 1 2", &[], Ok(("FromDevice@1", &[1, 2])));
        check("in0=7", &[4, 7], Ok(("in0", &[1])));
        for wrong in ["in0", "in0=", "=1", "in0=one", "in0=-1", "in 0=1", "f(x)=1", ""] {
            check(wrong, &[], Err("should be ELEMENT=CORE"));
        }
        check("in0=3", &[], Err("no worker 3; the last one is 2"));
        check("in0=5", &[4, 7], Err("no worker runs on core 5; they run on 4, 7"));
        check("in0=1,1", &[], Err("placed on 1 twice"));
    }

    #[test]
    fn files_hold_a_place_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("places");
        let workers = Workers { count: 2, cores: &[] };
        std::fs::write(&path, "# left\nin0=0\n\nout0 1 # right\n").unwrap();
        let places = read(&["in0=1".to_owned()], Some(&path), workers).unwrap();
        let found: Vec<_> = places.iter().map(|p| (p.element.as_str(), p.workers[0])).collect();
        assert_eq!(found, [("in0", 0), ("out0", 1), ("in0", 1)]);
        std::fs::write(&path, "in0=0\nout0=2\n").unwrap();
        let why = read(&[], Some(&path), workers).unwrap_err();
        assert!(why.ends_with("places:2: there is no worker 2; the last one is 1 (see --threads)"), "{why}");
        assert!(read(&[], Some(&dir.path().join("none")), workers).unwrap_err().contains("none: "));
    }
}
