// Releases the weights of a cohort, verifies the release, and measures its scores in other people:
//   nextflow run workflows/main.nf -params-file workflows/demo.yaml
// A workflow of your own includes the processes: include { RELEASE; VERIFY; EVALUATE } from './main.nf'
// A `prefix` is the name of a fileset and of its tables, as in demo.yaml.

process SIMULATE {
    input:
    tuple val(prefix), val(people), val(seed)
    tuple val(panel), path(panel_files)

    output:
    tuple val(prefix), path("${prefix}.*")

    script:
    """
    primo-scale simulate --bfile ${panel} --out ${prefix} --samples ${people} --seed ${seed} --phenotypes 2
    """
}

// Work directory and ledger lie in `private_folder`, outside of the tasks: a task that was interrupted (exit code 5)
// continues, and one that is repeated publishes the noise that it paid for.
process RELEASE {
    publishDir params.out, mode: 'copy'
    errorStrategy { task.exitStatus == 5 ? 'retry' : 'terminate' }
    maxRetries 2

    input:
    tuple val(prefix), path(cohort)
    tuple val(panel), path(panel_files)
    val private_folder

    output:
    path 'release'

    script:
    """
    primo-scale release --bfile ${prefix} --pheno ${prefix}.pheno.tsv --covar ${prefix}.covar.tsv \\
        --pheno-bounds ${prefix}.pheno-bounds.tsv --covar-bounds ${prefix}.covar-bounds.tsv \\
        --ref-freq ${panel}.afreq --ld-panel ${panel} --epsilon ${params.epsilon} --delta ${params.delta} \\
        --ledger ${private_folder}/ledger.sqlite --work-dir ${private_folder}/release.work --out release
    """
}

process VERIFY {
    publishDir params.out, mode: 'copy'

    input:
    path release

    output:
    path 'verified.txt'

    script:
    """
    primo-scale verify ${release} > verified.txt
    """
}

process EVALUATE {
    publishDir params.out, mode: 'copy'

    input:
    path release
    tuple val(prefix), path(people)

    output:
    path 'evaluation'

    script:
    """
    primo-scale evaluate --weights ${release} --bfile ${prefix} --pheno ${prefix}.pheno.tsv \\
        --covar ${prefix}.covar.tsv --out evaluation
    """
}

workflow {
    panel = tuple(file(params.panel).name, files("${params.panel}.{bed,bim,fam,afreq}"))
    SIMULATE(channel.of(['train', 10000, 1], ['fresh', 1000, 2]), panel)
    RELEASE(SIMULATE.out.filter { prefix, _files -> prefix == 'train' }, panel, launchDir.resolve(params.out))
    VERIFY(RELEASE.out)
    EVALUATE(RELEASE.out, SIMULATE.out.filter { prefix, _files -> prefix == 'fresh' })
}
