"""From a program to a module, once a target."""


rule compile_iree:
    input:
        packages=lambda w: ancient(PLAN.env_packages(plan.IREE_ENV)),
        env=lambda w: env_of(
            plan.IREE_ENV, "compile", f"{w.model}/{w.frontend}/{w.target}"
        ),
        program="results/export/{model}/{frontend}/program.mlir",
        export="results/export/{model}/{frontend}/status.json",
    output:
        vmfb="results/compile/{model}/{frontend}/{target}/module.vmfb",
        report="results/compile/{model}/{frontend}/{target}/report.json",
        status="results/compile/{model}/{frontend}/{target}/status.json",
    log:
        "results/compile/{model}/{frontend}/{target}/log.txt",
    group:
        "build-{model}"
    conda:
        "../../envs/iree.yaml"
    threads: slot_threads
    resources:
        **asks("compile"),
        **beside_others(),
    params:
        stage="compile",
        cell="{model}/{frontend}/{target}",
        due=lambda w: PLAN.due("compile", f"{w.model}/{w.frontend}/{w.target}"),
        skip=lambda w: PLAN.skip(f"{w.model}/{w.frontend}/{w.target}"),
        python=PLAN.python(plan.IREE_ENV),
        pins=PLAN.pins(plan.IREE_ENV),
        target=lambda w: PLAN.compile_options(w),
    shell:
        SUPERVISE + " --module scripts.compile_iree {params.skip}"
        " --upstream {input.env:q} {input.export:q}"
        " --artifact {output.vmfb:q} {output.report:q}"
        " -- {params.python} -m scripts.compile_iree --program {input.program:q}"
        " {params.target}"
        " --out-vmfb {output.vmfb:q} --out-report {output.report:q}"
