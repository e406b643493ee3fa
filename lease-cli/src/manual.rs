//! What shells and `man` are to know of the program, written from its own definition.

use std::path::Path;
use std::{fs, iter};

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::args::{Arguments, CompletionsArguments, ManArguments};
use crate::exit::{Failure, SUCCESS, SYSTEM, answer};

const PROGRAM: &str = "lease";

pub(crate) fn completions(arguments: &CompletionsArguments) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), PROGRAM, &mut script);
    answer(&String::from_utf8_lossy(&script))?;
    Ok(SUCCESS)
}

/// The page of the program on standard output; or, in a folder, it and those of the subcommands.
pub(crate) fn man(arguments: &ManArguments) -> Result<u8, Failure> {
    let mut program = Arguments::command().disable_help_subcommand(true);
    // Gives the subcommands the names that their pages have.
    program.build();
    let Some(folder) = &arguments.dir else {
        answer(&page(program)?.text)?;
        return Ok(SUCCESS);
    };
    let subcommands: Vec<_> = program.get_subcommands().cloned().collect();
    for command in iter::once(program).chain(subcommands) {
        let page = page(command)?;
        write(&folder.join(&page.file), &page.text)?;
    }
    Ok(SUCCESS)
}

struct Page {
    file: String,
    text: String,
}

fn page(command: Command) -> Result<Page, Failure> {
    let man = Man::new(command);
    let mut text = Vec::new();
    man.render(&mut text)
        .map_err(|error| Failure::new(SYSTEM, format!("cannot write the manual: {error}")))?;
    Ok(Page { file: man.get_filename(), text: String::from_utf8_lossy(&text).into_owned() })
}

fn write(file: &Path, page: &str) -> Result<(), Failure> {
    fs::write(file, page).map_err(|error| {
        let message =
            format!("cannot write {}: {error}; give --dir a folder that can be written", file.display());
        Failure::new(SYSTEM, message)
    })
}
