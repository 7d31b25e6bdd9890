// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `junctor test campaign`, and what the program's command line says of the runs of a campaign.

use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue};
use trials::campaign::{Campaign, Misuse, Plan, Program};

use crate::cli;

/// Test devices at many frame sizes and numbers of cores, by many procedures, as a file says.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "The file is TOML; every combination of its lists is one run:
  devices = [\"self:conf/ip-router.click\", \"passthrough\"]   as on the command line of junctor test
  sizes = [64, 512, 1518]       frame sizes in bytes
  cores = [1, 2]                of each device (-j) [default: 1]; those that are not of this machine's cores take 1 only
  modifiers = [\"none\", \"broadcast\", \"filters\"]
                                all is done without, and then again with each by itself [default: none]: broadcast, management
                                and routing frames beside the test's, filters, networks, bursts, burst=16, flows-per-port=1,
                                random-ports, random-macs or mesh, which are options of junctor test
  options = [\"--one-way\"]       for every run

  [[procedure]]
  test = \"rfc2544\"              any procedure of junctor test
  options = [\"--loss\"]          its own
  sizes = [64]                  its own, instead of the file's, like
  modifiers = [\"none\"]

Each finished run is written to DIR/runs at once. What fails is listed with its cause, and the campaign goes on; what such a run,
or one that was interrupted, has found until then is kept in DIR/runs too (....part.json) and reported as a part. --resume skips
what is done and measures the rest, also what failed or is a part, and what was measured with a configuration that has changed
since, or is in another form. What another version or machine has measured is kept; that is said, here and in the report.
In the end, also of a campaign that is interrupted, DIR has report.html, campaign.json, campaign.csv and campaign.md over all that
is known, with one conformance ledger: what is asked of a suite is met if its runs meet it together.

Exit status: 0 if every run has a whole result, 1 if one has not, 2 if the file is wrong.

Examples:
  junctor test campaign conf/campaign.toml --dir results
  junctor test campaign conf/campaign.toml --dir results --resume
  junctor test campaign conf/campaign-rfc2544.toml           the whole of RFC 2544
  junctor test compare monday/campaign.json tuesday/campaign.json")]
pub(super) struct Args {
    /// What to measure.
    #[arg(value_name = "FILE.toml")]
    file: PathBuf,
    /// Where results go [default: the file's name without .toml, here].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Go on with what an earlier campaign left in DIR.
    #[arg(long)]
    resume: bool,
    /// Print one JSON object over all runs (docs/schema/test.json).
    #[arg(long)]
    json: bool,
}

impl TryFrom<Args> for Campaign {
    type Error = trials::Error;

    fn try_from(args: Args) -> Result<Campaign, trials::Error> {
        let plan = Plan::read(&args.file, &Options)?;
        let directory = args.dir.unwrap_or_else(|| PathBuf::from(args.file.file_stem().unwrap_or_default()));
        Ok(Campaign { plan, directory, resume: args.resume, json: args.json })
    }
}

/// The options that this program has.
struct Options;

impl Program for Options {
    fn takes_device(&self, test: &str) -> Option<bool> {
        cli::has_argument(&["test", test], "device")
    }

    fn check(&self, arguments: &[&str]) -> Result<(), Misuse> {
        cli::check(arguments.iter().copied()).map_err(|why| {
            let about = match why.get(ContextKind::InvalidArg) {
                Some(ContextValue::String(about)) => about.clone(),
                _ => String::new(),
            };
            Misuse { about, said: why.to_string() }
        })
    }
}

#[cfg(test)]
mod tests {
    use trials::campaign::Plan;

    use super::Options;

    const GOOD: &str = "devices = [\"passthrough\"]\nsizes = [64, 128]\ncores = [1, 2]\noptions = [\"--one-way\"]\n\
                        [[procedure]]\ntest = \"rfc2544\"\noptions = [\"--loss\"]\n[[procedure]]\ntest = \"mlr\"\n";

    fn parse(text: &str) -> Result<Plan, (std::ops::Range<usize>, String)> {
        Plan::parse("t", text, &Options)
    }

    #[test]
    fn every_combination_is_a_run_with_a_key_of_its_own() {
        let plan = parse(GOOD).unwrap();
        assert_eq!((plan.title.as_str(), plan.runs.len()), ("t", 8));
        let first = &plan.runs[0];
        let wanted =
            ["test", "rfc2544", "passthrough", "--size", "64", "-j", "1", "--one-way", "--loss", "--json"];
        assert_eq!(
            (first.arguments.as_slice(), first.name.as_str()),
            (&wanted.map(str::to_owned)[..], "rfc2544, passthrough, 64 bytes, 1 core")
        );
        // Known by its file in the next version, too.
        assert!(first.key.starts_with("rfc2544-passthrough-64-1-"), "{}", first.key);
        assert_eq!(parse(GOOD).unwrap().runs[0].key, first.key);
    }

    #[test]
    fn all_is_done_without_modifiers_first_and_then_with_each() {
        let names = |text: &str| -> Vec<String> {
            let plan = parse(text).map_err(|(_, why)| why).expect("a plan");
            plan.runs.into_iter().map(|run| run.name).collect()
        };
        let text = GOOD.replace("[64, 128]", "[64]").replace("[1, 2]", "[1]");
        let told = text.replacen("options", "modifiers = [\"none\", \"broadcast\"]\noptions", 1);
        let run = |test: &str, with: &str| format!("{test}, passthrough, 64 bytes, 1 core, {with}");
        let (none, broadcast, networks) = ("without modifier", "with broadcast", "with networks=2");
        let each = [none, broadcast].map(|with| ["rfc2544", "mlr"].map(|test| run(test, with))).concat();
        assert_eq!(names(&told), each);
        // A procedure may have its own; without a modifier it is the same run as in a file that names none.
        let own = told + "modifiers = [\"none\", \"networks=2\"]\n";
        let all = [&each[..3], &[run("mlr", networks)]].concat();
        assert_eq!(names(&own), all);
        let (plan, plain) = (parse(&own).unwrap(), parse(&text).unwrap());
        assert_eq!([&plan.runs[0].key, &plan.runs[1].key], [&plain.runs[0].key, &plain.runs[1].key]);
        assert_eq!(plan.runs[3].arguments[7..], ["--one-way", "--networks=2", "--json"].map(str::to_owned));
    }

    #[test]
    fn the_example_of_a_suite_is_read() {
        let example = include_str!("../../../../conf/campaign-rfc2544.toml");
        let plan = parse(&example.replace("self:conf/ip-router.click", "cable")).map_err(|(_, why)| why);
        // Seven sizes and a reset under six conditions, and bursts.
        assert_eq!(plan.expect("a plan").runs.len(), 6 * (7 + 1) + 7);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let check = |from: &str, to: &str, line: usize, says: &str| {
            let text = GOOD.replacen(from, to, 1);
            let (place, why) = parse(&text).unwrap_err();
            let at = text[..place.start].matches('\n').count() + 1;
            assert!(why.contains(says) && at == line, "{from}: line {at}: {why}");
        };
        check("sizes", "sises", 2, "unknown field `sises`, expected one of");
        check("sizes = [64, 128]\n", "", 1, "missing field `sizes`");
        check("128", "\"a\"", 2, "expected a whole number");
        check("64, 128", "", 2, "no frame size; name one");
        check("\"passthrough\"", "\"table\"", 1, "expected self:CONF");
        check("\"passthrough\"", "\"self:/nowhere.click\"", 1, "name a configuration's file");
        check("\"mlr\"", "\"mlt\"", 9, "mlr");
        for other in ["agent", "campaign", "compare", "gather", "help", "start-device"] {
            check(
                "\"mlr\"",
                &format!("\"{other}\""),
                9,
                &format!("\"{other}\" is no procedure; take one such as"),
            );
        }
        check("[1, 2]", "[1, 0]", 3, "expected a number of workers from 1 to 64");
        check("[1, 2]", "[65]", 3, "expected a number of workers from 1 to 64");
        check("[1, 2]", "[1, 3]", 3, "passthrough uses 2 cores at most");
        check("\"passthrough\"", "\"cable\"", 3, "cable has no cores that the tester could give it");
        check("[64, 128]", "[64, 20]", 2, "64 is the least");
        check("--loss", "--los", 7, "--loss");
        check("\"--loss\"", "\"--repeat 3\"", 7, "write each word by itself: \"--repeat\", \"3\"");
        check("\"--loss\"", "\"--loss\",\n\"--repeat\", \"no\"", 8, "invalid value 'no' for '--repeat");
        check(
            "\"--one-way\"",
            "\"--one-way\", \"-j2\"",
            4,
            "-j2 is no option of a campaign's runs: cores = ",
        );
        check("--loss", "--report=a.html", 7, "each run would write it anew");
        let (_, why) =
            parse("devices = [\"cable\"]\nsizes = [64]\n[procedure]\ntest = \"mlr\"\n").unwrap_err();
        assert!(why.contains("write [[procedure]], with two brackets"), "{why}");
        check("test = \"rfc2544\"\n", "", 5, "missing field `test`; add test");
        check("128", "64", 2, "64 is asked for twice");
        check("[1, 2]", "[1, 1]", 3, "1 is asked for twice");
        check("\"mlr\"", "\"rfc2544\"\noptions = [\"--loss\"]", 9, "64 bytes, 1 core is asked for twice");
        for (modifiers, says) in [
            ("[\"none\", \"updates\"]", "\"updates\" is no modifier; take none, broadcast"),
            ("[\"none\", \"none\"]", "\"none\" is asked for twice"),
            ("[\"networks=1\"]", "1 is not in 2..=760"),
            ("[]", "no modifier; name one"),
            ("\"none\"", "write a list"),
        ] {
            check("options", &format!("modifiers = {modifiers}\noptions"), 4, says);
        }
        check("devices = [", "devices = [,", 1, "");
    }
}
